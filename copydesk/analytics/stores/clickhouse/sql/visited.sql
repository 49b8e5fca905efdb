if(
    missing,
    [(toUInt8(3), sipHash64(project, 'missing', path), path)],
    arrayConcat(
        [(toUInt8(0), sipHash64(project, 'page', path), path)],
        [(toUInt8(2), sipHash64(project, 'agent', agent, operator, kind), '')],
        multiIf(
            kind != 1 or source_kind = 0, [],
            source_kind = 5, [(toUInt8(5), sipHash64(project, 'source', source_kind), '')],
            [(toUInt8(5 + source_kind), sipHash64(project, 'host', source_kind, source), toString(source))]
        )
    )
)

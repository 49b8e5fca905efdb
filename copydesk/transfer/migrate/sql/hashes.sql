-- The hashes that identify a page, a site, an agent, a missing page, a kind of sources and a referring host in ClickHouse.
-- Agents of requests for missing pages (the fifth) are not stored there.
select
    arrayMap((project, path) -> sipHash64(project, 'page', path), {projects:Array(String)}, {paths:Array(String)}),
    arrayMap(project -> sipHash64(project, 'site'), {projects:Array(String)}),
    arrayMap(
        (project, agent, operator, kind) -> sipHash64(project, 'agent', agent, operator, kind),
        {projects:Array(String)}, {agents:Array(String)}, {operators:Array(String)}, {kinds:Array(UInt8)}
    ),
    arrayMap((project, path) -> sipHash64(project, 'missing', path), {projects:Array(String)}, {paths:Array(String)}),
    arrayMap(project -> 0, {projects:Array(String)}),
    arrayMap(
        (project, kind) -> sipHash64(project, 'source', kind), {projects:Array(String)}, {kinds:Array(UInt8)}
    ),
    arrayMap(
        (project, kind, path) -> sipHash64(project, 'host', kind, path),
        {projects:Array(String)}, {kinds:Array(UInt8)}, {paths:Array(String)}
    )

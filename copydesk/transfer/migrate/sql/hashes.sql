-- The hashes that identify a page, a site and an agent in ClickHouse.
select
    arrayMap((project, path) -> sipHash64(project, 'page', path), {projects:Array(String)}, {paths:Array(String)}),
    arrayMap(project -> sipHash64(project, 'site'), {projects:Array(String)}),
    arrayMap(
        (project, agent, operator, kind) -> sipHash64(project, 'agent', agent, operator, kind),
        {projects:Array(String)}, {agents:Array(String)}, {operators:Array(String)}, {kinds:Array(UInt8)}
    )

-- The hashes that identify a page, a site, an agent and a missing page in ClickHouse. Agents of requests for missing pages
-- (the last) are not stored there.
select
    arrayMap((project, path) -> sipHash64(project, 'page', path), {projects:Array(String)}, {paths:Array(String)}),
    arrayMap(project -> sipHash64(project, 'site'), {projects:Array(String)}),
    arrayMap(
        (project, agent, operator, kind) -> sipHash64(project, 'agent', agent, operator, kind),
        {projects:Array(String)}, {agents:Array(String)}, {operators:Array(String)}, {kinds:Array(UInt8)}
    ),
    arrayMap((project, path) -> sipHash64(project, 'missing', path), {projects:Array(String)}, {paths:Array(String)}),
    arrayMap(project -> 0, {projects:Array(String)})

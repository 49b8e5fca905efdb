-- Each view of these days that has one of the classes, as it is and as it will be.
insert into corrected_views (
    fold, sign, project, at, path, kind, agent, operator, rule, version, visitor, host, referrer, event, missing,
    source, source_kind
)
select
    {fold:UInt64}, change.1, views.project, views.at, views.path,
    if(change.1 < 0, views.kind, new_kind), if(change.1 < 0, toString(views.agent), new_agent),
    if(change.1 < 0, toString(views.operator), new_operator), if(change.1 < 0, toString(views.rule), new_rule),
    if(change.1 < 0, toString(views.version), new_version), views.visitor, views.host, views.referrer, views.event,
    views.missing, views.source, views.source_kind
from views
inner join (select * from new_classes where fold = {classes:UInt64}) as classes
    on classes.rule = views.rule and classes.agent = views.agent and classes.operator = views.operator
    and classes.kind = views.kind
array join [tuple(-1), tuple(1)] as change
where views.project = {project:String} and intDiv(views.at, 86400000) in {days:Array(UInt16)};

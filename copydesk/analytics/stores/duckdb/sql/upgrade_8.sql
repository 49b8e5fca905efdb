-- Sections below the first level can be scopes from this version on, which earlier versions do not count in folds.
create table if not exists incomplete_sections (scope integer not null);

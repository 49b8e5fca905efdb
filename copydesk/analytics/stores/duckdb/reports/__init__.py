"""Reports of the store on DuckDB: about sites, sections and single pages."""

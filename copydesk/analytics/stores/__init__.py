"""The stores of page views: DuckDB for one machine, ClickHouse for several."""

"""Connections to ClickHouse: servers, shards, replicas and errors."""

"""Names that outsiders choose, of missing pages and referrers, and limits on how many are stored."""

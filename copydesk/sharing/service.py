"""Everything that shares analytics, created from the parts of the desk."""

from copydesk.core.db.database import Database
from copydesk.sharing.share_links import ShareLinks


class Sharing:
    def __init__(self, database: Database) -> None:
        self.links = ShareLinks(database)

"""The two kinds of job that every contender runs."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.repository import PAGE


@dataclass(frozen=True)
class EditTask:
    name: str
    prompt: str
    old: str
    new: str
    page: str | None = None

    def edit(self, checkout: Path) -> None:
        """Makes the same change directly, in checked-out files."""
        for path in [checkout / self.page] if self.page else checkout.rglob("*.md"):
            text = path.read_text()
            if self.old in text:
                path.write_text(text.replace(self.old, self.new))


EDIT_TASKS = (
    EditTask("one named page", f"Replace alpha with omega in {PAGE}", "alpha", "omega", PAGE),
    EditTask("every page, 3 match", "Replace alphaword with omegaword on every page", "alphaword", "omegaword"),
)

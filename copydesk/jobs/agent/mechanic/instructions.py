"""The instructions that the mechanic understands, each as data with a phrase that describes it."""

from dataclasses import dataclass

DERIVABLE_FIELDS = ("title", "description")
"""Fields whose value can be derived from the page itself."""


@dataclass(frozen=True)
class InstructionScope:
    """Where to work: on every page, or in the named files and folders. `code` says whether code is included.

    A place that ends with a slash is a folder.
    """

    places: tuple[str, ...] = ()
    code: bool = False
    lines: tuple[int, int] | None = None
    """The first and last line to change, if a comment on lines of the only place asked for the work."""

    def __str__(self) -> str:
        if self.lines is not None:
            first, last = self.lines
            lines = f"line {first}" if first == last else f"lines {first} to {last}"
            return f"on {lines} of {self.places[0]}"
        return "in " + " and ".join(map(_describe_place, self.places)) if self.places else "on every page"


def _describe_place(place: str) -> str:
    return f"the folder {place.rstrip('/')}" if place.endswith("/") else place


@dataclass(frozen=True)
class Replace:
    old: str
    new: str
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        code = "code included" if self.scope.code else "leaving code alone"
        return f"replace “{self.old}” with “{self.new}” {self.scope}, {code}"


@dataclass(frozen=True)
class MovePage:
    page: str
    to: str
    into_folder: bool = False
    same_folder: bool = False
    """True if the prompt says rename: a target without a folder then stays in the page's folder."""

    def __str__(self) -> str:
        return f"move the page {self.page} to {self.to}, with its links and navigation"


@dataclass(frozen=True)
class FixLinks:
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        return f"fix broken internal links {self.scope}"


@dataclass(frozen=True)
class AddField:
    name: str
    value: str | None = None
    """None means that the value is derived from the page."""
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        value = f" “{self.value}”" if self.value is not None else ""
        return f"add the front-matter field {self.name}{value} where it is missing, {self.scope}"


@dataclass(frozen=True)
class TrimSpace:
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        return f"remove trailing whitespace {self.scope}"


@dataclass(frozen=True)
class FixHeadings:
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        return f"fix heading levels that skip one, and second top-level headings, {self.scope}"


@dataclass(frozen=True)
class RenameHeading:
    old: str
    new: str
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        place = f" {self.scope}" if self.scope.places else ""
        return f"change the heading “{self.old}” to “{self.new}”{place}, with the links to it"


@dataclass(frozen=True)
class SetTableValue:
    row: str
    """The text of the row's first cell."""
    value: str
    column: str | None = None
    """The heading of the column; None if the table has only one column of values."""
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        column = f"{self.column} of " if self.column is not None else ""
        return f"set {column}“{self.row}” to “{self.value}” in a table {self.scope}"


@dataclass(frozen=True)
class DeletePage:
    page: str
    redirect_to: str = ""
    """The page that the old address should lead to; empty if the prompt names none."""

    def __str__(self) -> str:
        redirect = f", with a redirect to {self.redirect_to}" if self.redirect_to else ""
        return f"delete the page {self.page} with the links and navigation entries that lead to it{redirect}"


@dataclass(frozen=True)
class AddToNavigation:
    page: str
    after: str = ""
    """The page or the label after which the entry belongs."""
    under: str = ""
    """The group or section that gets the entry at its end."""
    title: str = ""
    """The label of the entry; empty if it is derived from the page where the navigation has labels."""

    def __str__(self) -> str:
        place = f" after “{self.after}”" if self.after else f" under “{self.under}”" if self.under else ""
        return f"add the page {self.page} to the navigation{place}"


@dataclass(frozen=True)
class AddRedirects:
    addresses: tuple[str, ...]
    """Addresses that have no page, with a leading slash."""

    def __str__(self) -> str:
        if len(self.addresses) == 1:
            return f"add a redirect for the missing page {self.addresses[0]}"
        return f"add redirects for {len(self.addresses)} missing pages"


PageInstruction = MovePage | DeletePage | AddToNavigation | AddRedirects
"""Instructions about pages that they name, which have no scope."""
Instruction = Replace | PageInstruction | FixLinks | AddField | TrimSpace | FixHeadings | RenameHeading | SetTableValue


@dataclass(frozen=True)
class NotUnderstood:
    text: str
    """The words that were not understood, as the person wrote them."""
    word: str = ""
    """The first of them that the mechanic does not know how to treat; empty if there is no single one."""

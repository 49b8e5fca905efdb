"""What the mechanic can be told to do, each as data with a sentence that says it back."""

from dataclasses import dataclass

DERIVABLE_FIELDS = ("title", "description")
"""Fields whose value can be taken from the page itself."""


@dataclass(frozen=True)
class InstructionScope:
    """Where to work: every page, or the files and folders named. `code` says whether code is meant too."""

    places: tuple[str, ...] = ()
    code: bool = False

    def __str__(self) -> str:
        return "in " + " and ".join(self.places) if self.places else "on every page"


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
    """A plain name is meant to stay in the page's folder: the word was rename."""

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
    """None: taken from the page."""
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        value = f" “{self.value}”" if self.value is not None else ""
        return f"add the front-matter field {self.name}{value} where it is missing, {self.scope}"


@dataclass(frozen=True)
class TrimSpace:
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        return f"remove trailing white space {self.scope}"


@dataclass(frozen=True)
class FixHeadings:
    scope: InstructionScope = InstructionScope()

    def __str__(self) -> str:
        return f"fix heading levels that skip one, and second top-level headings, {self.scope}"


Instruction = Replace | MovePage | FixLinks | AddField | TrimSpace | FixHeadings


@dataclass(frozen=True)
class NotUnderstood:
    text: str
    """The words that made no sense, as they were written."""

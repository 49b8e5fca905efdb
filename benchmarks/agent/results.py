"""Results of a run, stored as JSON."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.agent.cases import InvalidCase
from benchmarks.agent.metrics import Score


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True)


class Result(_Data):
    """One case: how its job ended, its changes, and its cost."""

    name: str
    tags: tuple[str, ...] = ()
    status: str
    reason: str | None = None
    message: str | None = None
    score: Score
    findings: tuple[str, ...] = ()
    """Findings of Copydesk's own checks that the change introduced."""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None if no price is published for the model."""
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        """Returns whether the result equals the reference.

        A failed job is never exact, even where nothing had to change.
        """
        return self.score.exact and self.status == "completed"

    @property
    def outcome(self) -> str:
        return f"{self.status}, {self.reason}" if self.reason else self.status

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Run(_Data):
    model: str
    began: str
    copydesk: str
    """Its version."""
    results: tuple[Result, ...]


class ResultTotals(_Data):
    """Totals of a run: means of ratios, sums of counts."""

    cases: int
    exact: int
    failed: int
    precision: float
    recall: float
    f1: float
    lines_beyond: int
    lines_missed: int
    findings: int
    bytes_damaged: int
    requests: int
    tokens: int
    cost_usd: float | None
    seconds: float

    @classmethod
    def from_results(cls, results: tuple[Result, ...]) -> "ResultTotals":
        scores = [result.score for result in results]
        costs = [result.cost_usd for result in results if result.cost_usd is not None]
        return cls(
            cases=len(results),
            exact=sum(result.exact for result in results),
            failed=sum(result.status != "completed" for result in results),
            precision=_mean([score.precision for score in scores]),
            recall=_mean([score.recall for score in scores]),
            f1=_mean([score.f1 for score in scores]),
            lines_beyond=sum(score.lines_beyond for score in scores),
            lines_missed=sum(score.lines_missed for score in scores),
            findings=sum(len(result.findings) for result in results),
            bytes_damaged=sum(score.bytes_damaged for score in scores),
            requests=sum(result.requests for result in results),
            tokens=sum(result.tokens for result in results),
            cost_usd=sum(costs) if costs else None,
            seconds=sum(result.seconds for result in results),
        )


def save_run(run: Run, path: Path) -> None:
    """Saves a run as JSON, including computed figures, for other programs that read the file."""
    data = run.model_dump(mode="json")
    for result_data, result in zip(data["results"], run.results, strict=True):
        result_data["score"] |= {name: getattr(result.score, name) for name in ("precision", "recall", "f1")}
    data["sum"] = ResultTotals.from_results(run.results).model_dump()
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_run(path: Path) -> Run:
    try:
        return Run.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidCase(f"{path} cannot be read: {error.strerror}.") from None
    except ValidationError:
        raise InvalidCase(f"{path} is not what 'run --json' wrote.") from None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 1.0

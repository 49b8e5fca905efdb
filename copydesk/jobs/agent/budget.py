"""How much of a model one run of a job may use."""

from dataclasses import dataclass

from copydesk.core.settings import Settings
from copydesk.jobs.job import JobFailed, Reason, Usage


@dataclass(frozen=True)
class Budget:
    requests: int
    tokens: int
    cost_usd: float

    @classmethod
    def from_settings(cls, settings: Settings) -> "Budget":
        return cls(settings.job_requests, settings.job_tokens, settings.job_cost_usd)

    def is_exhausted(self, used: Usage) -> bool:
        try:
            self.check(used)
        except JobFailed:
            return True
        return False

    def check(self, used: Usage) -> None:
        """Raises JobFailed when the budget is used up. Called before each request."""
        exceeded_limit = None
        if used.requests >= self.requests:
            exceeded_limit = f"{self.requests} model requests"
        elif used.input_tokens + used.output_tokens >= self.tokens:
            exceeded_limit = f"{self.tokens:,} tokens"
        elif used.cost_usd is not None and used.cost_usd >= self.cost_usd:
            exceeded_limit = f"{self.cost_usd} US dollars"
        if exceeded_limit:
            raise JobFailed(
                f"The run reached its limit of {exceeded_limit} before it finished.", Reason.BUDGET_EXCEEDED
            )

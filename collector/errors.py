"""Every error groundwatch raises on purpose, split by what the caller must do.

GroundwatchError
  UsageError                      what was asked for cannot be done as asked, exit code 2
    ConfigError                   stop at start, exit code 2
  MalformedPayload                permanent: answer 400 or dead-letter, count, go on
  Conflict                        somebody else was faster: answer 409, look again
  Overloaded(retry_after_seconds) flow control: refuse with 429/503, or pause
  DependencyError                 something beside us failed, exit code 3
    TransientDependencyError      try again within a deadline
    PermanentDependencyError      trying again will not help: stop and say so
  JudgeError(cause)               an answer could not be scored; never a number
  Postponed(cause)                an answer cannot be scored now; leave it in the journal
"""


class GroundwatchError(Exception):
    """Root of all errors raised on purpose."""


class UsageError(GroundwatchError):
    """What a person asked for cannot be done as asked.

    Args:
        problems: one sentence each, starting with the option, file or folder at fault.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ConfigError(UsageError):
    """The configuration cannot be used; each problem starts with the key path at fault."""


class MalformedPayload(GroundwatchError):
    """These bytes will never be readable. The message names the field and the cure."""


class Conflict(GroundwatchError):
    """What is to be changed was changed meanwhile. The message says by whom, and what to do."""


class Overloaded(GroundwatchError):
    """Not now: a bounded resource is full.

    Args:
        reason: short machine-readable name of the full resource, used as a metric label.
        retry_after_seconds: when a retry makes sense.
    """

    def __init__(self, reason: str, retry_after_seconds: float = 5.0) -> None:
        super().__init__(f"{reason} is full, retry after {retry_after_seconds:g} s")
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class DependencyError(GroundwatchError):
    """A store, broker or endpoint beside us failed."""


class TransientDependencyError(DependencyError):
    """The same call may succeed later."""


class PermanentDependencyError(DependencyError):
    """The same call will fail again; a person has to act."""


class JudgeError(GroundwatchError):
    """An answer could not be scored.

    Args:
        cause: bounded name, used as a metric label and stored with the judgement
            (see `collector.model.FAILURE_CAUSES`).
        detail: what happened, free of any text of users.
    """

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.detail = detail


class Postponed(GroundwatchError):
    """An answer cannot be scored now, for a reason that has nothing to do with the answer.

    Args:
        cause: as in `JudgeError`: what is down, or that today's budget is used up.
        retry_after_seconds: when a retry makes sense.
        tried: it was tried, and failed in a way that blames what is down.
    """

    def __init__(self, cause: str, retry_after_seconds: float, *, tried: bool = False) -> None:
        super().__init__(f"{cause}: again in {retry_after_seconds:.0f} s")
        self.cause = cause
        self.retry_after_seconds = retry_after_seconds
        self.tried = tried

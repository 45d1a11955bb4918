"""The part of the configuration that decides what is judged, told apart and alarmed on."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, model_validator

from collector.config.section import Section


class SamplingConfig(Section):
    """Which requests are judged."""

    rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of requests that is judged; with a budget only what to expect at first",
    )
    budget_per_day: int | None = Field(
        None, ge=1, description="judgements a UTC day, spread over its requests; null: fixed rate"
    )
    floor: float = Field(
        0.001, gt=0, le=1, description="lowest share that is judged, also when the budget is spent"
    )
    signal_rate: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of requests with a signal that says no that is judged, if above rate; "
        "with a budget at most four times the share of others",
    )
    review_per_day: int = Field(
        0,
        ge=0,
        description="judgements a day of the worst conversations, for the review only",
    )
    salt: str = Field(
        "groundwatch-1", min_length=1, description="salt of the sampling hash; stored by its name"
    )


class AlertsConfig(Section):
    """When someone is paged."""

    faithfulness: float = Field(
        0.9,
        gt=0,
        lt=1,
        description="mean faithfulness to keep, below that of the worst usual hour",
    )
    segments: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict, description="the same for single segments, by name"
    )
    false_page_days: float = Field(
        24.0,
        ge=1,
        description="days between false pages over all segments, were they right at that mean",
    )
    hold_hours: float = Field(
        12.0, gt=0, description="how long a page lasts after the last alarm behind it"
    )
    settle_seconds: float = Field(
        300.0,
        ge=1,
        description="then a decision is surely in the store; shorter only to try it out",
    )


class SegmentRule(Section):
    """Puts a request into a segment. The first rule that matches decides."""

    name: str = Field(min_length=1, max_length=60, description="the segment")
    attribute: str | None = Field(None, description="span or resource attribute to look at")
    equals: str | None = Field(None, description="value the attribute must have")
    question_matches: str | None = Field(None, description="regular expression on the question")

    @model_validator(mode="after")
    def _says_what_to_match(self) -> SegmentRule:
        if (self.attribute is None) == (self.question_matches is None):
            raise ValueError("give either attribute or question_matches")
        if self.equals is not None and self.attribute is None:
            raise ValueError("equals needs attribute")
        try:
            re.compile(self.question_matches or "")
        except re.error as err:
            raise ValueError(f"question_matches is not a regular expression: {err}") from err
        return self


class SegmentsConfig(Section):
    """Segments of traffic. Without a rule that matches, built-in kinds of questions are used."""

    rules: list[SegmentRule] = Field(default_factory=list, description="rules, first match wins")
    max_segments: int = Field(
        50, ge=2, le=1000, description="distinct segments; later ones are counted as other"
    )


class ImplicitConfig(Section):
    """Signals inferred from what users do next: asking again, pushing back, giving up."""

    enabled: bool = Field(
        default=True, description="infer signals by comparing the turns of each conversation"
    )
    quiet_minutes: float = Field(
        30.0, gt=0, description="silence after which a conversation counts as left"
    )
    long_wait_seconds: float = Field(
        30.0, gt=0, description="latency that counts as a reason to leave"
    )

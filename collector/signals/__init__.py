"""User signals as apps post them, read into `Signal` values. Pure: no I/O, no clock."""

from collector.signals.about import (
    CONVERSATION_REACH,
    complained_about,
    is_change,
    is_complaint,
    keys_of,
    may_be_changed,
    signal_entries,
    target_of,
    together,
)
from collector.signals.common import IGNORED_REASONS, Client, Ignored, Outcome, ParsedSignals
from collector.signals.meaning import SENTIMENT
from collector.signals.native import parse_signals
from collector.signals.traced import is_evaluation, may_hold_signals, signals_in
from collector.signals.values import MAX_SIGNALS

__all__ = [
    "CONVERSATION_REACH",
    "IGNORED_REASONS",
    "MAX_SIGNALS",
    "SENTIMENT",
    "Client",
    "Ignored",
    "Outcome",
    "ParsedSignals",
    "complained_about",
    "is_change",
    "is_complaint",
    "is_evaluation",
    "keys_of",
    "may_be_changed",
    "may_hold_signals",
    "parse_signals",
    "signal_entries",
    "signals_in",
    "target_of",
    "together",
]

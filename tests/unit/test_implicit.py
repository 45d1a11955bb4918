"""What users do next says something about the answer, and how sure that is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import ImplicitConfig
from collector.model import Inferred, Turn
from scorers.implicit.detect import between, infer
from tests.fakes.store import AT

CONFIG = ImplicitConfig(quiet_minutes=30, long_wait_seconds=20)
NIGHT = AT + timedelta(hours=8)
REFUSAL = "I'm sorry, but the documents do not say anything about that."


def turn(question: str | None, minutes: float = 0, **changes: Any) -> Turn:
    fields: dict[str, Any] = {"answer": "Write to us.", "latency_ms": 900.0} | changes
    at = AT + timedelta(minutes=minutes)
    return Turn(trace_id=f"t{minutes}", at=at, question=question, **fields)


def after(question: str, later: str, answer: str = "Write to us.") -> Inferred | None:
    return between(turn(question, answer=answer), turn(later, 1))


def kind_after(question: str, later: str, answer: str = "Write to us.") -> str | None:
    found = after(question, later, answer)
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("question", "later"),
    [
        ("How do I reset my password?", "how can i reset the password"),
        ("How do I reset my password?", "How do I reset my pasword on the phone?"),
        ("and for the pro plan?", "What does the upgrade cost for the pro plan?"),
        ("How long does delivery to Austria take?", "Delivery to Austria, how long?"),
        ("Wie kann ich mein Abo kündigen?", "Ich möchte mein Abo kündigen, wie geht das?"),
        ("Comment annuler ma commande ?", "Je veux annuler ma commande, comment faire ?"),
        ("¿Cómo cambio mi contraseña?", "Quiero cambiar mi contraseña, ¿cómo lo hago?"),
    ],
)
def test_a_question_that_keeps_the_words_of_the_last_one_is_a_rephrase(
    question: str, later: str
) -> None:
    found = after(question, later)
    assert found is not None
    assert found.kind == "rephrase"
    assert found.trace_id == "t0"
    assert "come again" in found.reason


@pytest.mark.parametrize(
    ("question", "later"),
    [
        ("How do I reset my password?", "Is there a mobile app?"),
        ("How do I cancel my subscription?", "And is the rest of the month refunded?"),
        ("What does plan A cost?", "What does plan B cost?"),
        ("What was revenue in 2023?", "What was revenue in 2024?"),
        ("How long does delivery to Austria take?", "How long does delivery to Spain take?"),
        ("Which countries do you ship to?", "What about Norway?"),
        ("Wie lange dauert der Versand?", "Und was kostet er?"),
        ("¿Cómo cambio mi contraseña?", "¿Y el correo?"),
    ],
)
def test_a_question_that_goes_on_from_the_last_one_says_nothing(question: str, later: str) -> None:
    assert after(question, later) is None


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ("No, I meant the yearly plan", 'corrects ("no i")'),
        ("I don't understand, can you explain that?", "does not understand"),
        ("But you said it was free!", "disagrees"),
        ("Isn't that wrong? I heard it costs 5 euros.", "disagrees"),
        ("Nein, ich meinte das Jahresabo", "corrects"),
        ("Das verstehe ich nicht", "does not understand"),
        ("Non, je voulais dire l'abonnement annuel", "corrects"),
        ("Je ne comprends pas", "does not understand"),
        ("No entiendo, ¿qué quieres decir?", "does not understand"),
    ],
)
def test_correcting_doubting_and_not_understanding_is_push_back(later: str, why: str) -> None:
    found = after("What does the subscription cost?", later)
    assert found is not None
    assert found.kind == "push_back"
    assert why in found.reason


@pytest.mark.parametrize(
    "later",
    [
        "What is wrong when the light is red?",
        "No internet connection after the update",
        "Not reachable by phone, what now?",
        "Why isn't the printer printing?",
        "It says error 404, what is that?",
        "How do I turn it on again?",
        "Explain the refund policy",
        "Where do I check the balance?",
        "Can I really get a discount?",
        "Does not start any more after the update",
        "Wait time at the counter?",
        "Was habe ich falsch gemacht?",
        "Nicht erreichbar, was tun?",
        "Erklären Sie die Rückgabe",
        "Expliquez la garantie",
        "No puedo entrar en mi cuenta",
        "¿Qué está mal con la factura?",
    ],
)
def test_words_of_trouble_with_the_product_are_not_push_back(later: str) -> None:
    assert kind_after("Which plans are there?", later, answer="Basic and Pro.") is None


def test_no_as_the_answer_to_a_question_back_is_not_push_back() -> None:
    question, later = "What does shipping cost?", "No, that is all."
    assert kind_after(question, later, answer="5 euros.") == "push_back"
    assert after(question, later, answer="5 euros. Is there anything else?") is None


def test_a_reason_does_not_repeat_what_the_user_said_between_cue_words() -> None:
    found = after("Which one?", "What did Anna Schmidt of Bremen order exactly, you said?")
    assert found is not None
    assert "Schmidt" not in found.reason


def test_the_same_words_again_are_a_regenerated_answer() -> None:
    found = between(turn("What is new?"), turn("what is new", 0.5))
    assert found is not None
    assert (found.kind, found.reason) == ("regenerate", "the same question again after 30 s")


def test_the_same_question_before_the_answer_was_there_is_a_client_that_tries_twice() -> None:
    slow = turn("What is new?", latency_ms=60_000.0)
    assert between(slow, turn("What is new?", 0.5)) is None


@pytest.mark.parametrize(
    ("last", "confidence", "reason"),
    [
        ({"answer": REFUSAL}, 0.5, "nothing came after a refusal"),
        ({"latency_ms": 42_000.0}, 0.4, "nothing came after a wait of 42 s"),
        (
            {"answer": REFUSAL, "latency_ms": 42_000.0},
            0.7,
            "nothing came after a refusal and a wait of 42 s",
        ),
    ],
)
def test_silence_after_a_refusal_or_a_long_wait_is_giving_up(
    last: dict[str, Any], confidence: float, reason: str
) -> None:
    talk = [turn("What is new?"), turn("What does it cost?", 5, **last)]
    (found,) = infer(talk, NIGHT, CONFIG)
    assert (found.trace_id, found.kind) == ("t5", "abandon")
    assert (found.confidence, found.reason) == (confidence, reason)


def test_silence_is_judged_only_once_it_has_lasted() -> None:
    talk = [turn("What does it cost?", answer=REFUSAL)]
    assert infer(talk, AT + timedelta(minutes=29), CONFIG) == []
    assert len(infer(talk, AT + timedelta(minutes=30), CONFIG)) == 1


def test_silence_after_a_plain_answer_says_nothing() -> None:
    assert infer([turn("What does it cost?")], NIGHT, CONFIG) == []


def test_whoever_asks_something_else_later_has_not_given_up() -> None:
    talk = [turn("What does it cost?", answer=REFUSAL), turn("Who is the owner?", 60)]
    assert infer(talk, NIGHT, CONFIG) == []


def test_turns_that_lie_far_apart_are_not_compared() -> None:
    talk = [turn("What does it cost?"), turn("So, what does it cost?", 31)]
    assert infer(talk, NIGHT, CONFIG) == []


@pytest.mark.parametrize(("clicked", "confidence"), [(3, 0.4), (5, 0.6), (40, 0.9)])
def test_opening_many_documents_of_one_answer_is_a_sign(clicked: int, confidence: float) -> None:
    (found,) = infer([turn("What does it cost?", clicked=clicked)], NIGHT, CONFIG)
    assert found.kind == "repeated_clicks"
    assert found.confidence == pytest.approx(confidence)
    assert infer([turn("What does it cost?", clicked=2)], NIGHT, CONFIG) == []


@pytest.mark.parametrize("missing", [None, "", " ", "?!"])
def test_turns_without_a_question_are_not_compared(missing: str | None) -> None:
    assert infer([turn(missing), turn("I meant this one", 1), turn(missing, 2)], AT, CONFIG) == []


questions = st.one_of(
    st.none(),
    st.text(max_size=200),
    st.lists(
        st.sampled_from(["no", "I", "meant", "Plan", "B", "cost", "2024", "?", ".", "wie", "今日"]),
        max_size=12,
    ).map(" ".join),
)
turns = st.builds(
    Turn,
    trace_id=st.uuids().map(lambda u: u.hex),
    at=st.integers(0, 100).map(lambda m: AT + timedelta(minutes=m)),
    question=questions,
    answer=questions,
    latency_ms=st.none() | st.floats(0, 1e9),
    clicked=st.integers(0, 100),
)


@given(talk=st.lists(turns, max_size=6), data=st.data())
def test_any_talk_gives_bounded_confidences_whatever_the_order(
    talk: list[Turn], data: st.DataObject
) -> None:
    found = infer(talk, NIGHT, CONFIG)
    shuffled = data.draw(st.permutations(talk))
    by_name = sorted(found, key=lambda s: (s.trace_id, s.kind))
    assert by_name == sorted(infer(shuffled, NIGHT, CONFIG), key=lambda s: (s.trace_id, s.kind))
    assert all(0 < signal.confidence < 1 and signal.reason for signal in found)
    assert {signal.trace_id for signal in found} <= {turn.trace_id for turn in talk}
    assert len({(signal.trace_id, signal.kind) for signal in found}) == len(found)

"""Refusals are recognised in several languages, and statements are not mistaken for them."""

import pytest

from scorers.refusal import is_abstention, is_courtesy, is_refusal

REFUSALS = [
    "I don't know.",
    "I don’t know",
    "I do not know the answer to that question.",
    "I'm not sure.",
    "I'm sorry, but I couldn't find any information about that. Please contact support.",
    "Unfortunately, I do not have information on how to keep your address confidential.",
    "We don't offer pet insurance.",
    "Acme does not offer pet insurance.",
    "No. We currently don't sell gift cards.",
    "The documents do not say.",
    "The provided context doesn't mention any discount for students.",
    "There is no information about this in the provided context.",
    "This is not mentioned in the documents. Would you like me to look for something else?",
    "Sorry, I cannot help with that.",
    "That question is outside the scope of my knowledge.",
    "Das weiß ich leider nicht.",
    "Es tut mir leid, dazu habe ich keine Informationen.",
    "Ich kann diese Frage anhand der Dokumente nicht beantworten.",
    "In den Dokumenten steht dazu nichts.",
    "Wir bieten keine Tierversicherung an.",
    "Je ne sais pas.",
    "Désolé, je n'ai pas trouvé d'information à ce sujet.",
    "Les documents ne mentionnent pas ce sujet.",
    "Nous ne proposons pas d'assurance pour animaux.",
    "No lo sé.",
    "Lo siento, no puedo responder a esa pregunta.",
    "No tengo información sobre eso.",
    "Los documentos no mencionan el precio.",
    "No ofrecemos seguros para mascotas.",
    "Non lo so.",
    "Não sei.",
    "Dat weet ik niet. Ik weet het niet.",
    "我不知道。",
    "わかりません。",
]

STATEMENTS = [
    "The Pro plan costs 49 dollars.",
    "I don't know, but the Pro plan costs 49 dollars.",
    "I don't know. The Pro plan costs 49 dollars.",
    "The documents do not mention a discount. However, students pay half.",
    "The similar plans are Basic and Team, but the document does not say which one is older.",
    "You don't need a licence.",
    "No, you cannot change the region later.",
    "SSO does not work without a licence.",
    "Documents are not shared with third parties.",
    "You can contact support at support@example.com.",
    "Yes.",
    "Der Pro-Tarif kostet 49 Euro.",
    "Der Vertrag kann nicht rückwirkend gekündigt werden.",
    "Le forfait Pro coûte 49 euros.",
    "El plan Pro no incluye SSO.",
    "专业版包括单点登录。",
]


@pytest.mark.parametrize("answer", REFUSALS)
def test_an_answer_that_only_refuses_is_a_refusal(answer: str) -> None:
    assert is_refusal(answer)


@pytest.mark.parametrize("answer", STATEMENTS)
def test_an_answer_that_states_something_is_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


@pytest.mark.parametrize("answer", ["", "   ", "...", "How can I help you?", "Hello!"])
def test_courtesy_alone_refuses_nothing(answer: str) -> None:
    assert not is_refusal(answer)


def test_one_sentence_can_abstain_within_an_answer() -> None:
    assert is_abstention("The documents do not mention a discount.")
    assert not is_abstention("The documents mention a discount.")


@pytest.mark.parametrize(
    "sentence",
    ["I hope this helps!", "Is there anything else?", "Please contact our support.", "Sorry!"],
)
def test_courtesy_is_told_from_statements(sentence: str) -> None:
    assert is_courtesy(sentence)
    assert not is_courtesy("The Pro plan costs 49 dollars.")

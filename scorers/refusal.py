"""Refusals: answers that only say that they do not know, or that there is no such thing.

On a question the corpus cannot answer a refusal is the only right answer; as an answer without a
claim it is never scored for faithfulness. Every sentence has to refuse, or be courtesy around a
refusal: an answer that abstains and then asserts something is no refusal.
"""

import re

from scorers.lexical_text import NEGATIONS, fold, language, segments

# All patterns are matched against folded sentences: lower case, no punctuation, "do not".
_NOT_EN = (
    r"(?:do|does|did|could|can|ca|would|is|are|was|were|am|m|s|ve|have|has|had|will|wo) not"
    r"|cannot|unable to|no longer"
)
_SOURCE_EN = (
    r"(?:(?:the |these |this |any of the |none of the |my |our )?"
    r"(?:(?:provided|given|available|retrieved|supplied|above|following|current) )*"
    r"(?:documents?|documentation|context|sources?|texts?|passages?|articles?|pages?|excerpts?"
    r"|knowledge base|information|materials?|data|search results?|results?|content|records?|files?)"
    r"(?: (?:provided|given|available|retrieved|above|i have|at hand))*)"
)
_INFO_EN = (
    r"(?:information|details?|data|knowledge|answers?|mentions?|access|context|documents?|documentation"
    r"|sources?|records?|idea|evidence|enough|anything|specifics?|clue)"
)

_ABSTENTIONS = (
    # English
    rf"\b(?:i|we)(?: \w+)? (?:{_NOT_EN})(?: \w+){{0,3}} "
    r"(?:know|sure|certain|aware|familiar|able to (?:find|answer|say|tell|determine|help|provide)"
    r"|find|answer|say|tell|determine|confirm|see|locate|help|assist|provide|comment|speculate)\b",
    rf"\b(?:i|we) (?:{_NOT_EN})(?: \w+){{0,2}} have(?: \w+){{0,4}} {_INFO_EN}\b",
    rf"\b(?:i|we)(?: currently)? have no(?: \w+){{0,3}} {_INFO_EN}\b",
    r"\b(?:i m|i am|we are|we re) (?:not (?:sure|certain|aware|familiar|able)|unable to)\b",
    r"\b(?:i|we) (?:found|find|see) (?:no|nothing)\b",
    rf"\b{_SOURCE_EN}(?: \w+)? (?:{_NOT_EN})(?: \w+){{0,2}} (?:say|mention|state|contain|include"
    r"|provide|specify|cover|address|answer|discuss|indicate|give|describe|offer|list|explain"
    r"|detail|reveal|have|enough|sufficient|available|found|specified|mentioned|said)\w*\b",
    rf"\b{_SOURCE_EN} (?:is|are) (?:silent|insufficient|unavailable)\b",
    rf"\b{_SOURCE_EN} (?:says?|contains?|has|have|provides?|offers?|gives?|makes?) "
    rf"(?:no|nothing|insufficient)\b",
    rf"^(?:there is|there s|there are|there was) (?:no|not (?:enough|any|sufficient))"
    rf"(?: \w+){{0,3}} {_INFO_EN}\b",
    r"^no (?:\w+ )?(?:information|answer|details?|mention|documents?|data|idea|results?)\b",
    r"\b(?:it|that|this|which) (?:is|was) not (?:\w+ )?"
    r"(?:mentioned|specified|stated|covered|addressed|provided|documented|described|known|clear"
    r")\b",
    r"\b(?:is|are) not (?:\w+ )?"
    r"(?:mentioned|specified|covered|addressed|documented|answered)"
    rf" (?:in|by|within|anywhere in) {_SOURCE_EN}",
    r"\bwe (?:currently |at present )?do not (?:currently |yet |at present )?"
    r"(?:offer|sell|provide|have|support|carry|do|cover)\b",
    r"^(?:no )?\w+ (?:currently )?(?:does|do) not (?:currently )?"
    r"(?:offer|sell)\b",
    r"\b(?:is|are) (?:outside|beyond|out of) (?:\w+ )?(?:my |our |the )?"
    r"(?:scope|knowledge|expertise)",
    r"^(?:i )?do not know$|^unknown$|^n a$|^not (?:specified|available|mentioned|found|known)$",
    # German
    r"\b(?:ich|wir) (?:\w+ )?(?:weiss|wissen)(?: \w+){0,4} (?:nicht|nichts)\b",
    r"\bweiss ich (?:leider )?nicht\b",
    r"\b(?:kann|können|konnte|konnten) (?:ich|wir)?(?: \w+){0,8} (?:nicht|keine\w*|nichts)"
    r"(?: \w+){0,8} (?:beantworten|sagen|finden|helfen|bestätigen|entnehmen|angeben"
    r"|beurteilen|geben)\b",
    r"\b(?:habe|haben|hab) (?:ich |wir )?(?:\w+ ){0,3}(?:keine?n?|nichts)(?: \w+){0,5} "
    r"(?:information\w*|angaben?|daten|antwort\w*|hinweise?|kenntnis\w*|unterlagen|gefunden|ahnung"
    r"|zugriff)\b",
    r"\b(?:dokument\w*|unterlagen|quellen?|texte?|kontext|informationen|seiten?|artikel|passagen?)\b"
    r"(?: \w+){0,4} (?:keine?n?|nichts|nicht)\b",
    r"\b(?:geht|steht|findet sich|gibt es)(?: \w+){0,5} (?:nicht|nichts|keine?n?)(?: \w+){0,4}"
    r" (?:hervor|information\w*|angaben?|hinweise?|dokument\w*|unterlagen|quellen?|kontext|text)\b",
    r"\b(?:dazu|darüber|hierzu)(?: \w+){0,4} (?:keine?n?|nichts)\b",
    r"\b(?:bieten|führen|haben|verkaufen|unterstützen) wir (?:\w+ ){0,3}(?:nicht|keine?n?)\b",
    r"\bwir (?:bieten|führen|verkaufen|unterstützen)(?: \w+){0,6} (?:nicht|keine?n?)\b",
    # French
    r"\bje (?:ne )?sais pas\b|\bje l ignore\b|\bnous ne savons pas\b|\baucune idée\b",
    r"\b(?:je|nous) ne (?:\w+ )?(?:peux|puis|pouvons|suis|sommes|trouve|trouvons|dispose|disposons"
    r"|connais|vois|parviens)(?: \w+){0,2} (?:pas|aucun\w*|rien)\b",
    r"\b(?:je|nous) n (?:ai|avons|y) (?:\w+ )?(?:pas|aucun\w*|rien|trouvé aucun\w*)\b",
    r"\b(?:documents?|sources?|textes?|contexte|pages?|extraits?|articles?|informations?|passages?)\b"
    r"(?: \w+){0,3} (?:ne|n)\b(?: \w+){0,3} (?:pas|aucun\w*|rien|ni)\b",
    r"\b(?:il n y a|il n existe) (?:pas|aucun\w*|rien)(?: \w+){0,3} "
    r"(?:informations?|réponses?|détails?|mention|données)\b",
    r"^aucun\w* (?:information|réponse|mention|donnée|détail)\w*\b",
    r"\bnous ne (?:proposons|vendons|offrons|fournissons) (?:pas|aucun\w*)\b",
    # Spanish
    r"\b(?:no|tampoco) (?:lo |la |te |le |se |me )*(?:sé|sabemos|sabría|puedo|podemos|encuentro"
    r"|encontramos|encontré|dispongo|disponemos|tengo|tenemos|conozco|hay|existe|consta)"
    r"(?: \w+){0,4}(?: (?:información|datos|detalles|respuesta|responder|contestar|decir|ayudar"
    r"|confirmar|documentos?|determinar|acceso|nada)\b|$)",
    r"\b(?:documentos?|fuentes?|textos?|contexto|páginas?|artículos?|información|pasajes?)\b"
    r"(?: \w+){0,3} no(?: \w+)? (?:dicen?|mencionan?|indican?|contienen?|incluyen?|especifican?"
    r"|proporcionan?|hablan?|aclaran?|ofrecen?|está|figura|aparece)\b",
    r"^(?:no lo sé|lo desconozco|se desconoce)\b",
    r"\bno (?:ofrecemos|vendemos|ofertamos|proporcionamos)\b",
    # Italian, Portuguese, Dutch
    r"\bnon (?:lo )?(?:so|sappiamo|posso|possiamo|ho|abbiamo|trovo)(?: \w+){0,4}"
    r"(?: (?:informazioni|rispondere|dire|dati|risposta|trovato)\b|$)",
    r"\b(?:documenti|documento|fonti|testo|contesto)\b(?: \w+){0,3} non\b",
    r"\bnão (?:sei|sabemos|encontrei|posso|tenho|temos|há)(?: \w+){0,4}"
    r"(?: (?:informaç\w+|responder|dizer|dados|resposta|nada)\b|$)",
    r"\b(?:documentos?|fontes?|textos?|contexto)\b(?: \w+){0,3} não\b",
    r"\b(?:ik|we|wij) (?:weet|weten|kan|kunnen|heb|hebben|vind|vinden)(?: \w+){0,4} "
    r"(?:niet|geen)\b",
    r"\bweet ik (?:helaas )?niet\b",
    r"\b(?:documenten|document|bronnen|tekst|context)\b(?: \w+){0,4} (?:niet|geen|niets)\b",
    # Chinese, Japanese: folded, their characters stand alone
    r"(?:我 )?(?:不 知 道|无 法 回 答|没 有 (?:\S ){0,6}信 息|未 提 及|没 有 提 到)",
    r"分 か り ま せ ん|わ か り ま せ ん",
    r"記 載 (?:さ れ て )?(?:は |が )?(?:い ま せ ん|あ り ま せ ん)",
)
_COURTESIES = (
    r"^(?:(?:i m|i am|we are|we re) )?(?:very |so |really )?sorry"
    r"(?: about that| for \w+(?: \w+){0,4})?$",
    r"^(?:unfortunately|i apologi[sz]e|my apologies|apologies)(?: for \w+(?: \w+){0,4})?$",
    r"^(?:please|you (?:can|may|might|could|should)|i (?:would |d )?(?:suggest|recommend|advise)"
    r"|try|feel free|for (?:more|further)|if you)\b.*\b(?:contact|reach out|check|consult|visit"
    r"|refer|ask|see|rephrase|let me know|provide|clarify|support|website|help|look|try|search"
    r"|question|information)\b",
    r"^(?:let me know|is there anything|how (?:else )?can i|can i help|would you like|can you"
    r"|could you|do you)\b",
    r"^(?:es tut mir leid|tut mir leid|leider|entschuldigung|bitte (?:wenden|kontaktieren|fragen"
    r"|prüfen|sehen)\b.*|wenden sie sich\b.*)$",
    r"^(?:je suis désolée?|désolée?|nous sommes désolés|veuillez\b.*|n hésitez pas\b.*)$",
    r"^(?:lo siento(?: mucho)?|lo lamento|lamentablemente|disculpe|por favor\b.*"
    r"|(?:le )?(?:recomiendo|sugiero)\b.*)$",
    r"^(?:no|nein|non|não|nee)$",
    r"^(?:sure|certainly|of course|great question|no problem|you re welcome|gern geschehen"
    r"|de rien|de nada)(?: \w+){0,2}$",
    r"^(?:i hope (?:this|that|it) helps?|hope (?:this|that) helps?|ich hoffe das hilft"
    r"|j espère que cela|espero que esto)\b(?: \w+){0,4}$",
    r"^(?:thanks?|thank you|hello|hi|hallo|bonjour|hola)\b(?: \w+){0,4}$",
)
_ABSTENTION = re.compile("|".join(_ABSTENTIONS))
# Without one of these words, or a script without spaces, none of the patterns can match.
_HINTS = NEGATIONS | {
    *("unknown", "unavailable", "insufficient", "silent", "outside", "beyond", "out"),
    *("ignore", "desconozco", "desconoce"),
}
_COURTESY = re.compile("|".join(_COURTESIES))
# Each side of one of these is judged on its own: "sorry, but I do not know" refuses,
# "I do not know, but it costs 5 euros" does not.
_TURN = re.compile(
    r"[,;:.–—-]?\s+(?:but|however|though|although|aber|jedoch|allerdings|mais|cependant|toutefois"
    r"|pero|sin embargo|mas|porém|tuttavia|maar)\b[,:]?",
    re.IGNORECASE,
)


def is_abstention(sentence: str) -> bool:
    """Say whether one sentence states only that something is not known, not said or not offered.

    A sentence that goes on to assert something ("..., but the price is 5 euros") is not one.
    """
    if sentence.isascii() and _HINTS.isdisjoint(fold(sentence).split()):
        return False
    parts = [fold(part) for part in _TURN.split(sentence)]
    abstains = [_ABSTENTION.search(part) is not None for part in parts]
    return any(abstains) and all(
        abstaining or not part or _COURTESY.match(part)
        for part, abstaining in zip(parts, abstains, strict=True)
    )


def is_courtesy(sentence: str) -> bool:
    """Say whether a sentence is an apology, greeting, question back or advice where to ask."""
    return sentence.rstrip().endswith(("?", "？")) or _COURTESY.match(fold(sentence)) is not None


def is_refusal(answer: str) -> bool:
    """Say whether an answer only refuses: at least one abstention and otherwise courtesy.

    English, German, French and Spanish, and the common forms of Italian, Portuguese, Dutch,
    Chinese and Japanese.
    """
    code = language(answer)
    refused = False
    for start, end in segments(answer, code):
        sentence = answer[start:end]
        if is_abstention(sentence):
            refused = True
        elif not is_courtesy(sentence) and fold(sentence):
            return False
    return refused

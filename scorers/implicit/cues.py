"""Words by which users say that an answer was not what they wanted, by what they do with it.

Patterns are matched against folded sentences (`scorers.lexical_text.fold`): lower case, no
punctuation, "don't" as "do not". English is the full list; German, French and Spanish have the
common ones.
"""

import re

from scorers.lexical_text import fold, sentences

_SAID = r"(?:that|this|it|they|those|these|answer|which) (?:is|are|was|were|s|sounds?|seems?)"

_PATTERNS: dict[str, dict[str, tuple[str, ...]]] = {
    "corrects": {
        "en": (
            r"^(?:no|nope)(?:$| (?:i|it|that|this|not|the|my|you|no)\b)|^(?:oops|sorry)\b",
            r"^not (?:what|that|this|really|quite)\b|^wait(?:$| (?:a|i|so|what|that|is|but)\b)",
            r"\bcorrection\b|\bnot what i\b|\bi did not (?:ask|mean|say)\b",
            r"\bi (?:just |only |really |actually )?(?:mean|meant|asked|said)\b",
            r"\bi (?:am|m|was) (?:just |only |really |actually )?(?:asking|talking|referring)\b",
            r"\bmy question (?:was|is)\b",
        ),
        "de": (
            r"^nein\b|^nicht (?:das|was|so|ganz)\b|^moment\b|\bmeine frage (?:war|ist)\b",
            r"\bich (?:meine|meinte|fragte|habe gefragt)\b|\bich wollte (?:wissen|fragen)\b",
            r"\b(?:meinte|wollte|fragte) ich nicht\b",
        ),
        "fr": (
            r"^(?:non|pardon|attendez)\b|^pas (?:ça|cela|exactement)\b|\bj ai demandé\b",
            r"\bje (?:veux dire|voulais dire|voulais savoir)\b|\bje (?:parle|parlais) de\b",
            r"\bma question (?:était|est)\b|\bce n est pas ce que j\b",
        ),
        "es": (
            r"^no(?:$| (?:es|era|eso|quería|me refiero|me refería)\b)|^(?:perdón|espera)\b",
            r"\bme (?:refiero|refería)\b|\b(?:quería|quise) decir\b|\bquería saber\b",
            r"\bmi pregunta (?:era|es)\b|\bno es lo que\b|\bhe preguntado\b|\bpregunté\b",
        ),
    },
    "does not understand": {
        "en": (
            r"\bconfus\w*|\bunclear\b|\bnot clear\b|\bclarif\w*|\bmakes? no sense\b",
            r"\bnot (?:really |quite )?sure (?:i|what|how|if|whether|why)\b",
            r"\btrying to understand\b|\b(?:what|do) (?:do )?you mean\b|\bare you saying\b",
            r"\bi (?:do|did|can|could) not (?:\w+ )?(?:understand|follow)\b",
            r"\bi (?:do|did|can|could) not (?:\w+ )?get (?:it|that|this|what)$",
            r"\bwhat (?:does|do) (?:that|this|it|they|those) mean\b|\belaborate\b",
            r"\bexplain(?:$| (?:that|this|it|more|again|further|better|your|yourself|please)\b)",
            r"\bmore (?:details?|specific|concrete|precise|exact|clearly)\b",
            r"\bwhat\b.* exactly$|\bexactly what\b",
        ),
        "de": (
            r"\bverstehe\b.* nicht\b|\bunklar\b|\bnicht klar\b|\bgenauer\b",
            r"\berklär\w* (?:sie |du |mir |bitte )*(?:das|es)\b",
            r"\bwas (?:meinst du|meinen sie|heißt das|bedeutet das)\b",
        ),
        "fr": (
            r"\bne comprends pas\b|\bpas clair\b|\bplus de détails\b|\bprécise[zr]?\b",
            r"\b(?:expliqu|clarifi)(?:er|ez|e) (?:moi )?(?:ça|cela|davantage|mieux)\b",
            r"\bque (?:voulez vous|veux tu) dire\b",
        ),
        "es": (
            r"\bno (?:lo )?(?:entiendo|comprendo)\b|\bno (?:me )?queda claro\b|\bmás detalles\b",
            r"\bexplic\w* (?:eso|esto|mejor|más)\b|\baclar\w*|\bqué (?:quieres|quiere) decir\b",
        ),
    },
    "disagrees": {
        "en": (
            r"(?<!why )\b(?:is|are|was|were|do|does|did|have|has|can|could|should|would|will) not"
            r" (?:it|that|they|he|she|there|you|we|i|the|this|these|those)\b",
            r"^(?:is|are|was|were|did|has|have|should|would) not\b",
            r"^but\b|^(?:ok|okay|yes|i see|i know|i get that|sure) but\b|^(?:however|although)\b",
            r"\bbut (?:i|you|he|she|they|it|that|this|the|do|is|are|can|what|why|how)\b",
            r"^really\b|\breally$|\bactually\b|\b(?:are )?you sure\b|\bcontradict\w*",
            rf"\b{_SAID} (?:\w+ )?(?:wrong|incorrect|false|untrue|mistaken)\b",
            rf"\b{_SAID} not (?:true|right|correct|possible)\b|^(?:wrong|incorrect)$",
            r"^(?:is|was) (?:not )?(?:that|this|it) (?:wrong|incorrect)\b|\bshould be one\b",
            r"\bthat (?:can not|cannot) be\b|\byou are (?:wrong|mistaken)\b",
        ),
        "de": (
            r"^aber\b|\baber (?:ich|du|sie|das|es|was|warum|wie)\b|\bwiderspr\w*|^wirklich\b",
            r"\bdas (?:ist|war|stimmt)\b.*\b(?:falsch|nicht)\b|\bsicher dass\b|\bnicht richtig\b",
        ),
        "fr": (
            r"^mais\b|\bpourtant\b|\bc est faux\b|\bpas (?:vrai|correct|exact)\b|^vraiment\b",
            r"\b(?:êtes vous|es tu|tu es|vous êtes) sûre?s?\b|\bcontredi\w*",
        ),
        "es": (
            r"^pero\b|\beso (?:está|es) (?:mal|falso|incorrecto)\b|\bcontradic\w*|^de verdad\b",
            r"\bno es (?:cierto|verdad|correcto)\b|\bseguro que\b",
        ),
    },
    "quotes": {
        "en": (
            r"\byou (?:just |also |have |had )?(?:said|say|mention\w*|told|stated?|wrote)\b",
            r"\byou (?:just |also |have |had )?(?:gave|give)\b|\b(?:told|tells) me\b",
            r"\b(?:he|she|they) (?:says?|said)\b|^(?:thought|heard)\b",
            r"\bi (?:have |had )?(?:heard|thought|read|was told|remember|believe)\b",
            r"\bi saw (?:that|it|on|in|somewhere)\b",
        ),
        "de": (
            r"\b(?:du|sie) (?:hast|haben|hattest|hatten)\b.*\b(?:gesagt|geschrieben|erwähnt)\b",
            r"\bich (?:dachte|habe gehört|habe gelesen|glaubte)\b",
        ),
        "fr": (
            r"\b(?:vous avez|tu as) (?:dit|écrit|mentionné)\b",
            r"\bje (?:pensais|croyais)\b|\bj ai (?:lu|entendu)\b",
        ),
        "es": (
            r"\b(?:dijiste|dijo|has dicho|ha dicho|mencionaste)\b",
            r"\b(?:pensaba|creía|leí|he leído|oí)\b",
        ),
    },
    "wants it confirmed": {
        "en": (
            r" (?:right|correct|true)$|\bis that (?:all|right|correct|true|it)\b",
            r"\b(?:those|these|that) the only\b",
        ),
        "de": (r" (?:oder|richtig|korrekt|nicht wahr)$|\bist das alles\b",),
        "fr": (r" (?:n est ce pas|c est ça|correct)$|\bc est tout\b",),
        "es": (r" (?:verdad|cierto|correcto|no)$|\beso es todo\b",),
    },
    "asks for another try": {
        "en": (
            r"\bonce more\b|\b(?:one|another) more time\b|\btry again\b|\bcheck again\b",
            r"\bsay (?:that |it )?again\b|\bdouble check\b|\bagain please$",
        ),
        "de": (r"\bnoch ?mal$|\bnochmals$|\bnoch einmal$",),
        "fr": (r"\bencore une fois$|\bà nouveau$|\bde nouveau$|\bvérifie[zr] encore\b",),
        "es": (r"\botra vez$|\bde nuevo$|\bnuevamente$",),
    },
    "concludes": {
        "en": (r"^(?:so|then|ok so|and so)\b|^(?:that|this) means\b|\bthen$",),
        "de": (r"^(?:also|dann)\b|^das heißt\b",),
        "fr": (r"^(?:donc|alors)\b|^ça veut dire\b",),
        "es": (r"^(?:entonces|o sea)\b|^eso significa\b",),
    },
}
NAMES = tuple(_PATTERNS)
"""What a cue does, in words."""

_COMPILED = {
    code: {name: re.compile("|".join(by_language[code])) for name, by_language in _PATTERNS.items()}
    for code in ("en", "de", "fr", "es")
}
_SHOWN_WORDS = 4
# A plain yes or no is the answer to a question back, not a correction.
_REPLY = re.compile(r"^(?:no|nope|not|nein|nicht|non|pas|sorry)\b")


def found(text: str, code: str, *, asked_back: bool) -> dict[str, str]:
    """Return the first words found of each kind of cue, by what they do.

    Args:
        text: what the user said.
        code: its language.
        asked_back: whether the answer before it ended with a question to the user.
    """
    patterns = _COMPILED.get(code, _COMPILED["en"])
    hits: dict[str, str] = {}
    for sentence in sentences(text, code):
        folded = fold(sentence)
        if asked_back:
            folded = _REPLY.sub("", folded).strip()
        for name, pattern in patterns.items():
            if name not in hits and (match := pattern.search(folded)):
                hits[name] = _shown(match[0])
    return hits


def _shown(matched: str) -> str:
    """Return the cue without what the user said in the middle of it."""
    words = matched.split()
    return " ".join(words) if len(words) <= _SHOWN_WORDS else f"{words[0]} … {words[-1]}"

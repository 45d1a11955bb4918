"""Text basics shared by the local scorers: folding, languages, sentences, stems.

Everything here is pure and works offline. Sentence boundaries come from `sentencex` (rules for
about 300 languages, 50 MB/s), stems from Snowball; both know languages by ISO 639-1 code.
Scripts written without spaces are read as character bigrams.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import sentencex  # type: ignore[import-untyped,unused-ignore]
import Stemmer  # type: ignore[import-not-found,unused-ignore]

from scorers.lexical_numbers import MONTHS, NUMBER_WORDS, UNITS, spell_out_dates, with_numbers

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
"""Thai, Lao, Burmese, Khmer, kana and Han, as the inside of a character class."""

_ASCII_TOKEN = re.compile(r"[a-z]+|(?:(?<![\w.,])[-+](?=\d))?\d+(?:[.,:/]\d+)*|[%$<>=]")
_TOKEN = re.compile(
    rf"[{UNSPACED}]|(?:(?<![\w.,])[-+](?=\d))?\d+(?:[.,:/]\d+)*|[^\W\d_{UNSPACED}]+|[%$£€¥₹°<>=]"
)
_MAX_SENTENCE_CHARACTERS = 400
_MAX_LINE_CHARACTERS = 2000
_UNSPACED = re.compile(f"[{UNSPACED}]")
_DIGIT = re.compile(r"\d")
_VARIANTS = str.maketrans(dict.fromkeys("‐‑‒–—−﹣－", "-") | dict.fromkeys("‘’ʼ`´", "'"))

# Words of grammar, by language. Negations are left out on purpose: they carry meaning.
_FUNCTION_WORDS = {
    "en": """a about after all also am an and any are as at be because been before being both but
        by can could did do does doing down during each few for from had has have having he her
        here hers him his how however i if in into is it its itself just like may me might more
        most much must my of off on once one only or other our out over own per same shall she
        should so some such than that the their them then there these they this those through to
        too under until up upon very was we were what when where which while who whom whose why
        will with within would you your yours s t re ve ll d m""",
    "de": """aber als am an auch auf aus bei beim bin bis bist da dabei damit dann das dass dem den
        denn der des die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem
        einen einer eines er es etwas für hab habe haben hat hatte hier ich ihr ihre ihrem ihren
        ihrer im in ist ja jede jeder jedes kann können man mehr mein mit muss nach noch nun nur ob
        oder schon sehr sein seine sich sie sind so über um und uns unser unter vom von vor war
        was weil welche wenn wer werden wie wir wird wurde wurden zu zum zur zwischen""",
    "fr": """à au aussi aux avec c ce cela ces cet cette chez comme d dans de depuis des deux dont
        du elle elles en entre est et était être eu fait il ils j je l la le les leur leurs lui
        là m ma mais me mes moi mon même n nos notre nous on ont ou où par parce peut plus pour qu
        quand que qui s sa sans se ses si son sont sous sur t ta te tes ton tous tout toute toutes
        très tu un une vos votre vous y été""",
    "es": """a al algo aquí así aunque cada como con cual cuando de del desde donde dos e el ella
        ellas ellos en entre era eran es esa ese eso esta está estaba están este esto estos fue
        fueron ha hace han hasta hay he la las le les lo los mi muy más me nos nosotros o para
        pero por porque puede que qué quien se ser si sido sobre son su sus también tan te tiene
        todo todos tu un una uno unos usted y ya yo""",
    "it": """a ad al alla alle anche che chi ci come con da dal dalla dei del della delle di dove e
        ed è era essere gli ha hanno i il in io la le lei lo loro lui ma mi nei nel nella o per
        perché più può quando quella quello questa questo se si sia sono su sua sul sulla suo tra
        tu un una uno vi voi""",
    "pt": """a à ao aos as às até com como da das de dela dele do dos e é ela ele eles em entre era
        essa esse esta está este eu foi foram há isso já lhe mais mas me mesmo muito na nas no nos
        nós o os ou para pela pelo por qual quando que quem se sem ser seu seus sua suas também te
        tem um uma você""",
    "nl": """aan al als bij dat de deze die dit door dus een en er haar heb hebben heeft hem het
        hij hoe hun ik in is je kan kunnen maar me meer men met mijn naar nog nu of om onder ons
        ook op over te tegen toch toen tot u uit van veel voor want waren was wat we wel werd wie
        wij wil worden zal ze zelf zich zij zijn zo zou""",
}
FUNCTION_WORDS = {
    language: frozenset(unicodedata.normalize("NFKC", words).casefold().split())
    for language, words in _FUNCTION_WORDS.items()
}
"""Words of grammar by ISO 639-1 code, folded."""

STOP_WORDS = frozenset().union(*FUNCTION_WORDS.values())
"""Words of grammar of all these languages together."""

_NEGATIONS = """no not never none nor neither cannot without nothing nobody nowhere hardly unable
    avoid avoids lack lacks lacking fail fails failed except unless
    instead
    nicht kein keine keinen keinem keiner keines nie niemals ohne weder nichts
    ne pas jamais aucun aucune sans rien non
    nunca ningún ninguna ninguno jamás sin nada ni
    não sem nenhum nenhuma nessun nessuna mai senza niet geen nooit zonder"""
NEGATIONS = frozenset(_NEGATIONS.split())
"""Words that turn a statement round, folded."""

_STEMMERS = {
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
}


def fold(text: str) -> str:
    """Return the words, numbers and signs of value of a text, by single spaces.

    Case, white space, Unicode variants, punctuation and markup are folded away; digits, signs,
    currency and percent stay. "n't" becomes "not". Characters of scripts without spaces stand
    alone.
    """
    return " ".join(_words(text))


def _words(text: str) -> list[str]:
    pattern = _ASCII_TOKEN
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_VARIANTS)
        pattern = _TOKEN
    found: list[str] = pattern.findall(text.casefold().replace("n't", " not"))
    return found


def language(text: str) -> str:
    """Guess the language by its words of grammar; "en" where there are none.

    Enough to choose a stemmer and abbreviations, not a language detector.
    """
    words = set(text.casefold().split())
    best, most = "en", 0
    for code, known in FUNCTION_WORDS.items():
        hits = len(known & words)
        if hits > most:
            best, most = code, hits
    return best


def segments(text: str, code: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence or line of running text, blanks around it left out.

    What goes on without an end, as tables and lists of names do, is cut every
    `_MAX_SENTENCE_CHARACTERS` or so, at a space where there is one.
    """
    readable = text.encode("utf-8", "replace").decode("utf-8")  # half surrogates would raise
    line_start = 0
    for line in readable.split("\n"):
        start = line_start
        for chunk in _chunks(line):
            for segment in sentencex.segment(code, chunk):
                end = start + len(segment.rstrip())
                if end > start:
                    yield from _cut_up(text, end - len(segment.strip()), end)
                start += len(segment)
        line_start += len(line) + 1


def _chunks(line: str) -> Iterator[str]:
    """Cut a very long line, at a space if there is one: `sentencex` takes quadratic time."""
    while len(line) > _MAX_LINE_CHARACTERS:
        cut = line.rfind(" ", 0, _MAX_LINE_CHARACTERS) + 1 or _MAX_LINE_CHARACTERS
        yield line[:cut]
        line = line[cut:]
    if line and not line.isspace():
        yield line


def sentences(text: str, code: str) -> list[str]:
    """Split running text into sentences, stripped, in order."""
    return [text[start:end] for start, end in segments(text, code)]


def is_content(folded: str) -> bool:
    """Say whether a folded text holds more than words of grammar."""
    return any(word not in STOP_WORDS and word[0].isalnum() for word in folded.split())


def counted_words(text: str) -> list[str]:
    """Return the folded words of a text in order, each number and short month in one form."""
    if not _DIGIT.search(text):
        return _words(text)
    return with_numbers(_words(spell_out_dates(text)))


def stems(text: str, code: str) -> list[str]:
    """Return the words of a text in comparable form, in order.

    Words are folded and stemmed, those of grammar only folded; numbers, months and units have one
    form each; runs of a script without spaces become overlapping bigrams.
    """
    words = counted_words(text)
    if text.isascii() or not _UNSPACED.search(text):
        return list(map(_former(code), words))
    form = _former(code)
    found: list[str] = []
    previous = ""
    for word in words:
        if _UNSPACED.match(word):
            found.append(previous + word)
            previous = word
        else:
            found.append(form(word))
            previous = ""
    return found


@cache
def _former(code: str) -> Callable[[str], str]:
    """Return the function, remembering its results, that brings a word into comparable form."""

    @lru_cache(maxsize=50_000)
    def form(word: str) -> str:
        common = NUMBER_WORDS.get(word) or MONTHS.get(word) or UNITS.get(word)
        if common is not None:
            return common
        if word in STOP_WORDS or word in NEGATIONS or not word[0].isalpha():
            return word
        # A stemmer of its own: they are cheap to make and not safe to share among threads.
        stemmed: str = Stemmer.Stemmer(_STEMMERS[code], 0).stemWord(word)
        return stemmed

    return form


def _cut_up(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _MAX_SENTENCE_CHARACTERS:
        limit = start + _MAX_SENTENCE_CHARACTERS
        cut = text.rfind(" ", start + _MAX_SENTENCE_CHARACTERS // 2, limit)
        cut = cut if cut > 0 else limit
        yield start, cut
        start = cut + 1 if text[cut] == " " else cut
    yield start, end

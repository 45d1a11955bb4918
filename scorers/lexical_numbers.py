"""Numbers, units and dates as written in running text, brought to one form for comparison."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*$")
_DECIMAL = re.compile(r"(\d+)[.,](\d+)$")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")

_WORDS = {
    "2": "two zwei deux dos due dois twee",
    "3": "three drei trois tres tre três drie",
    "4": "four vier quatre cuatro quattro quatro",
    "5": "five fünf cinq cinco cinque vijf",
    "6": "six sechs seis sei zes",
    "7": "seven sieben sept siete sette sete zeven",
    "8": "eight acht huit ocho otto oito",
    "9": "nine neun neuf nueve nove negen",
    "10": "ten zehn dix diez dieci dez tien",
    "11": "eleven elf onze once undici",
    "12": "twelve dozen zwölf douze doce dodici doze twaalf",
    "15": "fifteen fünfzehn quinze quince quindici vijftien",
    "20": "twenty zwanzig vingt veinte venti vinte twintig",
    "30": "thirty dreißig trente treinta trenta trinta dertig",
    "40": "forty vierzig quarante cuarenta quaranta quarenta veertig",
    "50": "fifty fünfzig cinquante cincuenta cinquanta cinquenta vijftig",
    "60": "sixty sechzig soixante sesenta sessanta sessenta zestig",
    "90": "ninety neunzig noventa novanta negentig",
    "100": "hundred hundert cent cien cento honderd",
}
NUMBER_WORDS = {word.casefold(): value for value, words in _WORDS.items() for word in words.split()}
"""Digits of number words in seven languages, where they are not everyday words as well."""

_MONTHS = {
    1: "january januar janvier enero gennaio janeiro januari",
    2: "february februar février febrero febbraio fevereiro februari",
    3: "march märz mars marzo março maart",
    4: "april avril abril aprile",
    5: "mai mayo maggio maio mei",
    6: "june juni juin junio giugno junho",
    7: "july juli juillet julio luglio julho",
    8: "august août agosto augustus",
    9: "september septembre septiembre settembre setembro",
    10: "october oktober octobre octubre ottobre outubro",
    11: "november novembre noviembre novembro",
    12: "december dezember décembre diciembre dicembre dezembro",
}
MONTHS = {word: f"month{number}" for number, words in _MONTHS.items() for word in words.split()}
"""A common name for each month. English "may" is missing: it is mostly the verb."""
_SHORT_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_BESIDE_NUMBERS = {word: f"month{number}" for number, word in enumerate(_SHORT_MONTHS, 1)} | {
    "sept": "month9"
}

_SCALES = {
    "thousand": 10**3,
    "tausend": 10**3,
    "mille": 10**3,
    "mil": 10**3,
    "k": 10**3,
    "million": 10**6,
    "millions": 10**6,
    "millionen": 10**6,
    "millones": 10**6,
    "milioni": 10**6,
    "milhões": 10**6,
    "miljoen": 10**6,
    "mio": 10**6,
    "billion": 10**9,
    "billions": 10**9,
    "bn": 10**9,
    "milliarde": 10**9,
    "milliarden": 10**9,
    "milliards": 10**9,
    "miliardi": 10**9,
    "miljard": 10**9,
    "trillion": 10**12,
}
_UNITS = {
    "currency": {
        "usd": "$ usd dollar dollars",
        "eur": "€ eur euro euros",
        "gbp": "£ gbp pound pounds",
        "jpy": "¥ jpy yen",
        "chf": "chf franken francs",
        "inr": "₹ inr rupee rupees",
    },
    "share": {"percent": "% percent prozent pourcent procent", "permille": "‰ promille"},
    "time": {
        "second": "second seconds sec sekunde sekunden seconde secondes segundo segundos",
        "minute": "minute minutes min mins minuten minuto minutos minuti",
        "hour": "hour hours hr hrs stunde stunden heure heures hora horas ore uur",
        "day": "day days tag tage tagen jour jours día días giorno giorni dia dias dag dagen",
        "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken",
        "month": "month months monat monate monaten mois mes meses mese mesi maand maanden",
        "year": "year years yr yrs jahr jahre jahren ans année années año años anno anni ano anos"
        " jaar",
    },
    "data": {
        "kb": "kb kib kilobyte kilobytes",
        "mb": "mb mib megabyte megabytes",
        "gb": "gb gib gigabyte gigabytes",
        "tb": "tb tib terabyte terabytes",
    },
    "length": {
        "mm": "mm millimeter millimeters millimetre millimetres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "meter": "m meter meters metre metres mètre mètres metro metros",
        "km": "km kilometer kilometers kilometre kilometres kilómetros",
        "foot": "foot feet ft",
        "inch": "inch inches zoll",
        "mile": "mile miles mi meilen",
    },
    "mass": {"gram": "g gram grams gramm", "kg": "kg kilogram kilograms", "lb": "lb lbs"},
    "temperature": {"celsius": "°c celsius", "fahrenheit": "°f fahrenheit"},
}
_UNIT_OF = {
    word: (dimension, unit)
    for dimension, units in _UNITS.items()
    for unit, words in units.items()
    for word in words.split()
}
UNITS = {word: unit for word, (_, unit) in _UNIT_OF.items() if len(word) > 1 or not word.isalpha()}
"""One name for each unit: "$" and "dollars" are usd. Single letters are too ambiguous."""
UNIT_NAMES = frozenset(UNITS.values())


class Quantity(NamedTuple):
    """A number with its unit, both None where there is no unit that we know."""

    value: str
    dimension: str | None = None
    unit: str | None = None


def spell_out_dates(text: str) -> str:
    """Write ISO dates with the month by its common name, as other dates come to be written."""
    return _ISO_DATE.sub(lambda found: f"{found[1]} {_month(int(found[2]))} {int(found[3])}", text)


def canonical(number: str) -> str:
    """Return a number without thousands separators, leading zeros and empty decimals.

    "1,200" and "1.200" become 1200, "49,90" becomes 49.90, "49.00" becomes 49. Other decimals
    stay: version 3.10 is not 3.1. So does what is no plain number (times, dates, fractions).
    """
    sign = "-" if number.startswith("-") else ""
    digits = number.lstrip("+-")
    if _GROUPED.match(digits):
        digits = re.sub(r"[.,]", "", digits)
    elif decimal := _DECIMAL.match(digits):
        whole, fraction = decimal[1].lstrip("0") or "0", decimal[2]
        return f"{sign}{whole}" if set(fraction) == {"0"} else f"{sign}{whole}.{fraction}"
    if digits.isdecimal():
        return sign + (digits.lstrip("0") or "0")
    return number


def with_numbers(words: Sequence[str]) -> list[str]:
    """Return folded words with each number in one form, and short months beside a number.

    "2.5 million" becomes the two words 2500000 and million, so that either way of writing it
    is found by its value.
    """
    found: list[str] = []
    for position, word in enumerate(words):
        if word[-1].isdigit():
            found.append(_scaled(canonical(word), words, position))
        elif word in _BESIDE_NUMBERS and _beside_number(words, position):
            found.append(_BESIDE_NUMBERS[word])
        else:
            found.append(word)
    return found


def quantities(words: Sequence[str]) -> Iterator[Quantity]:
    """Yield the numbers of words from `with_numbers`, with their units: "$ 5", "5 %", "5 gb"."""
    for position, word in enumerate(words):
        if not word[-1].isdigit():
            continue
        after = words[position + 1] if position + 1 < len(words) else ""
        if after in _SCALES:
            after = words[position + 2] if position + 2 < len(words) else ""
        before = words[position - 1] if position else ""
        known = _UNIT_OF.get(after)
        if before in _UNIT_OF and _UNIT_OF[before][0] == "currency":
            known = _UNIT_OF[before]
        yield Quantity(word, *known) if known else Quantity(word)


def _scaled(number: str, words: Sequence[str], position: int) -> str:
    scale = _SCALES.get(words[position + 1]) if position + 1 < len(words) else None
    try:
        return number if scale is None else canonical(f"{float(number) * scale:.3f}")
    except ValueError:  # a time or version
        return number


def _beside_number(words: Sequence[str], position: int) -> bool:
    return any(
        0 <= place < len(words) and words[place][-1].isdigit()
        for place in (position - 1, position + 1)
    )


def _month(number: int) -> str:
    return _MONTHS[number].split()[0] if number in _MONTHS else str(number)

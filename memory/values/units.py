"""Abbreviations of the units of numbers."""

_UNITS = {
    "m": "metre metres meter meters",
    "km": "kilometre kilometres kilometer kilometers kms",
    "cm": "centimetre centimetres centimeter centimeters",
    "mm": "millimetre millimetres millimeter millimeters",
    "mi": "mile miles",
    "ft": "foot feet",
    "kg": "kilogram kilograms kilogramme kilogrammes kilo kilos kgs",
    "g": "gram grams gramme grammes",
    "lb": "lbs",
    "l": "litre litres liter liters",
    "ha": "hectare hectares",
    "h": "hour hours hr hrs",
    "min": "minute minutes mins",
    "sec": "second seconds secs",
    "yr": "year years yrs",
    "month": "months",
    "week": "weeks",
    "day": "days",
    "percent": "pct",
}
# Abbreviation by unit name.
SHORT = {name: short for short, names in _UNITS.items() for name in names.split()}
UNIT_NAMES = frozenset({*SHORT, *SHORT.values()})

"""Tables of units, number words, months and weekdays; `values.py` reads texts with them."""

_UNITS: dict[str, list[tuple[str, float, str]]] = {
  # dimension: (system, factor in the base unit, spellings)
  "mass": [
    ("", 1e-3, "mg milligram milligrams"),
    ("", 1, "g gram grams gramme grammes gr 克"),
    ("", 1e3, "kg kgs kilo kilos kilogram kilograms 公斤 千克"),
    ("", 1e6, "tonne tonnes"),
    ("imperial", 28.349523, "oz ounce ounces"),
    ("imperial", 453.59237, "lb lbs pound pounds"),
  ],
  "length": [
    ("", 1e-3, "mm millimetre millimetres millimeter millimeters"),
    ("", 1e-2, "cm centimetre centimetres centimeter centimeters 厘米"),
    ("", 1, "m metre metres meter meters 米"),
    ("", 1e3, "km kms kilometre kilometres kilometer kilometers 公里 千米"),
    ("imperial", 0.0254, "inch inches"),
    ("imperial", 0.3048, "ft foot feet"),
    ("imperial", 0.9144, "yd yard yards"),
    ("imperial", 1609.344, "mi mile miles"),
  ],
  "volume": [
    ("", 1e-3, "ml millilitre millilitres milliliter milliliters 毫升"),
    ("", 1e-2, "cl centilitre centilitres"),
    ("", 0.1, "dl decilitre decilitres"),
    ("", 1, "l litre litres liter liters 升"),
    ("imperial", 3.785412, "gal gallon gallons"),
    ("imperial", 0.4731765, "pint pints"),
  ],
  "duration": [  # minutes
    ("", 1 / 60000, "ms millisecond milliseconds"),
    ("", 1 / 60, "s sec secs second seconds 秒"),
    ("", 1, "min mins minute minutes 分钟"),
    ("", 60, "h hr hrs hour hours 小时"),
    ("", 1440, "day days 天"),
    ("", 10080, "week weeks wk wks 周"),
    ("", 20160, "fortnight fortnights"),
    ("", 43830, "month months 个月"),
    ("", 525960, "year years yr yrs 年"),
  ],
  "data": [
    ("", 1e-6, "byte bytes"),
    ("", 1e-3, "kb kilobyte kilobytes"),
    ("", 1, "mb megabyte megabytes"),
    ("", 1e3, "gb gigabyte gigabytes"),
    ("", 1e6, "tb terabyte terabytes"),
    ("", 1.048576, "mib"),
    ("", 1073.741824, "gib"),
    ("", 1099511.627776, "tib"),
  ],
  "rate": [("", 1e-3, "kbps"), ("", 1, "mbps"), ("", 1e3, "gbps")],
  "speed": [
    ("", 1, "km/h kmh kph"),
    ("", 3.6, "m/s"),
    ("imperial", 1.609344, "mph"),
  ],
  "frequency": [("", 1, "hz"), ("", 1e3, "khz"), ("", 1e6, "mhz"), ("", 1e9, "ghz")],
  "power": [("", 1, "w watt watts"), ("", 1e3, "kw kilowatt kilowatts"), ("", 1e6, "mw")],
  "energy": [("", 1, "wh"), ("", 1e3, "kwh"), ("food", 1, "kcal calories calorie")],
  "area": [("", 1, "sqm m² m2"), ("imperial", 0.092903, "sqft"), ("", 1e4, "hectare hectares ha")],
  "temperature": [
    ("", 1, "celsius centigrade °c 摄氏度"),
    ("imperial", 1, "fahrenheit °f"),
    ("", 1, "°"),
  ],
  "share": [("", 1, "% percent percentage pct")],
  "money": [
    ("usd", 1, "$ usd dollar dollars buck bucks"),
    ("usd", 0.01, "cent cents"),
    ("eur", 1, "€ eur euro euros"),
    ("gbp", 1, "£ gbp quid"),
    ("jpy", 1, "¥ jpy yen"),
    ("cny", 1, "cny rmb yuan 元"),
    ("inr", 1, "₹ inr rupee rupees"),
    ("chf", 1, "chf franc francs"),
    ("sek", 1, "sek"),
  ],
}  # fmt: skip
UNITS = {
  spelling: (dimension, system, factor)
  for dimension, rows in _UNITS.items()
  for system, factor, spellings in rows
  for spelling in spellings.split()
}
CURRENCY_FIRST = frozenset("$ € £ ¥ ₹ usd eur gbp jpy cny rmb chf inr".split())
TWO_WORD_UNITS = {
  ("per", "cent"): "%",
  ("degrees", "celsius"): "°c",
  ("degree", "celsius"): "°c",
  ("degrees", "fahrenheit"): "°f",
  ("degrees", "c"): "°c",
  ("degrees", "f"): "°f",
  ("°", "c"): "°c",
  ("°", "f"): "°f",
  ("square", "metres"): "m²",
  ("square", "meters"): "m²",
  ("square", "feet"): "sqft",
  ("公", "斤"): "kg",
  ("千", "克"): "kg",
  ("厘", "米"): "cm",
  ("公", "里"): "km",
  ("毫", "升"): "ml",
  ("分", "钟"): "min",
  ("小", "时"): "h",
  ("个", "月"): "month",
}
FAR_UNITS = frozenset("minutes hours days weeks months years".split())

_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBER_WORDS = {word: float(i) for i, word in enumerate(_ONES)} | {
  word: float(10 * i) for i, word in enumerate(_TENS, 2)
}
CJK_NUMBERS = {digit: float(i) for i, digit in enumerate("一二三四五六七八九十", 1)} | {"两": 2.0}
CJK_WEEKDAYS = {day: i for i, day in enumerate("一二三四五六日", 1)} | {"天": 7}
MULTIPLIERS = {
  "hundred": 100.0, "thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9,
  "bn": 1e9, "dozen": 12.0, "万": 1e4, "亿": 1e8,
}  # fmt: skip
NO_NUMBER_AFTER = frozenset("of more another day such that who which".split())
NO_NUMBER_BEFORE = frozenset("no this that which each any every the some another".split())

MONTHS: dict[str, int] = {}
for _i, _names in enumerate(
  """january jan;february feb;march mar;april apr;may;june jun;july jul;august aug;
  september sep sept;october oct;november nov;december dec""".split(";"), 1
):  # fmt: skip
  MONTHS |= dict.fromkeys(_names.split(), _i)
WEEKDAYS: dict[str, int] = {}
for _i, _names in enumerate(
  """monday mondays mon;tuesday tuesdays tue tues;wednesday wednesdays wed;thursday thursdays thu
  thurs;friday fridays fri;saturday saturdays sat;sunday sundays sun""".split(";"), 1
):  # fmt: skip
  WEEKDAYS |= dict.fromkeys(_names.split(), _i)
# Names of dates that are also common words: they count with a capital only.
NEED_CAPITAL = frozenset("may march mar sun sat mon wed jan".split())
YEAR_AFTER = frozenset(
  "in since until till from to by of year summer spring autumn fall winter and before after".split()
)

"""Words that code may know: function words, common verbs, relations, and a light stemmer.

Owns word lists of English (with a few Chinese characters) and the stem of a word; knows
nothing of claims. The lists are small on purpose: a word that is missing is a content word.
"""

import functools

FUNCTION_WORDS = frozenset(
  """a an the this that these those there here some any each every all both such own same
  i me my mine myself we us our ours you your yours he him his she her hers it its they them
  their theirs who whom whose which what where when why how and or but nor so yet if then than
  as because while although though whether of in on at by for with about against between into
  through during before after above below to from up down out off over under again further
  until since is am are was were be been being have has had having do does did doing will would
  shall should may might can could must not no very too also just only even still already now
  currently 's 'd per via please ok okay yes well let $ € £ ¥ ₹ % ° →
  的 了 是 在 我 你 他 她 它 们 和 与 也 都 就 要 把 被 给 来 去 这 那 吗 呢 吧 很 到 对 为 由 应
  """.split()
)

# Determiners: a verb form straight after one of these is a noun ("the work").
DETERMINERS = frozenset(
  "a an the this that these those my our your his her its their 's of".split()
)

SELF_WORDS = frozenset(
  "i me my mine myself we us our ours you your yours user operator customer 我".split()
)
# Spellings of the person whom the memory is about, as nouns: no content of their own.
SELF_NOUNS = frozenset("user operator customer".split())

RELATIONS = frozenset(
  """sister brother mother father mum mom dad parent son daughter child children kid wife husband
  partner girlfriend boyfriend fiance fiancee aunt uncle cousin niece nephew grandmother
  grandfather grandma grandpa granddaughter grandson friend colleague coworker boss manager
  neighbour neighbor roommate flatmate landlord teacher tutor coach doctor dentist therapist
  assistant client supervisor mentor student employee employer dog cat""".split()
)

_VERBS = """be is am are was were been have has had do does did will would shall should may might
can could must need like love hate dislike enjoy prefer want use live work move own drink eat play
study run lead manage weigh cost take make keep hold put get give go come start stop begin end
finish quit leave stay switch change become turn say tell ask think know believe expect plan speak
write read watch listen learn teach buy sell pay rent drive ride walk commute travel fly visit meet
call email send receive open close require allow forbid support include contain consist belong
rotate compress answer fail pass return drop lock store save delete remove add update list show
report join marry retire graduate celebrate sleep wake cook bake grow train avoid wear drank ate
lives works cancel pick choose decide start happen cover reach offer serve accept reject build
sing paint draw climb swim cycle dance jump push pull carry clean wash repair fix break install
mount practise practice fear hope wish seek order book sign print save spend earn owe
sit stand face share split hire promote increase decrease rise fall last expire renew replace
""".split()

IRREGULAR = dict(
  pair.split(":")
  for pair in """is:be am:be are:be was:be were:be been:be being:be has:have had:have having:have
  does:do did:do done:do doing:do went:go gone:go goes:go bought:buy sold:sell kept:keep left:leave
  met:meet made:make ran:run began:begin begun:begin spoke:speak spoken:speak chose:choose
  chosen:choose ate:eat eaten:eat drank:drink drunk:drink wrote:write written:write drove:drive
  driven:drive rode:ride taught:teach thought:think told:tell said:say took:take taken:take
  gave:give given:give got:get gotten:get came:come became:become grew:grow grown:grow knew:know
  known:know held:hold paid:pay sent:send spent:spend built:build lost:lose won:win found:find
  felt:feel slept:sleep flew:fly wore:wear broke:break broken:break fell:fall rose:rise risen:rise
  children:child people:person men:man women:woman feet:foot teeth:tooth likely:likely
  news:news always:always as:as his:his its:its this:this us:us yes:yes bus:bus gas:gas
  used:use uses:use using:use use:use during:during thing:thing nothing:nothing something:thing
  evening:evening morning:morning bring:bring spring:spring king:king ring:ring
  mum:mother mom:mother dad:father grey:gray""".split()
)

_SUFFIXES = ("ically", "ingly", "ments", "ment", "ness", "ings", "ing", "edly", "ies", "ied", "ed",
             "ly", "es", "s", "ic")  # fmt: skip


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
  """The stem of a casefolded word: inflection off, British and American spelling alike.

  Crude on purpose: it only has to send the forms of one word to one string.
  """
  base = IRREGULAR.get(word)
  if base == word:
    return word
  word = base or word
  if len(word) < 4 or not word.isalpha():
    return word
  for suffix in _SUFFIXES:
    if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
      word = word[: -len(suffix)]
      break
  if len(word) > 3 and word[-1] in "eyi":
    word = word[:-1]
  if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
    word = word[:-1]
  if len(word) > 4:
    word = word.replace("our", "or").replace("iz", "is").replace("tre", "ter")
  return word


VERB_STEMS = frozenset(stem(verb) for verb in _VERBS)

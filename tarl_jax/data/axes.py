"""Pairs of words that exclude each other, as data.

Owns the list and nothing else; `cues.py` finds its words in a text, by their stems.
"""

# One axis a line (a deeper line continues it): the words of one side | those of the other.
AXES = """
like, love, enjoy, adore, fond of, keen on, fan of, appreciate | dislike, hate, detest, loathe,
  can not stand, can not bear, averse to, sick of, tired of, fed up with
can, able, capable | unable, incapable
open, reopen | close, shut
allow, permit, permitted, authorise, may | forbid, forbidden, prohibit, ban, disallow
enable, activate, switch on, turn on | disable, deactivate, switch off, turn off
before, ahead of | after
on | off
support, compatible | unsupported, incompatible
accept, approve | reject, refuse, decline, deny
start, begin, launch | stop, end, finish, quit
buy, purchase | sell, sold
increase, raise, grow, rise | decrease, reduce, lower, fall, shrink, drop
high, higher | low, lower
hot, warm | cold, cool
early, earlier | late, later
always | never, rarely, seldom
public | private, confidential
online, remote, remotely | offline, in person, onsite, on site
available, free | unavailable, busy, booked
married, engaged | single, divorced, unmarried
employed, hired | unemployed, fired, retired, laid off
alive | dead, deceased, died
healthy, well | sick, ill, unwell
full | empty
present | absent
win, won | lose, lost
succeed, pass, successful | fail, unsuccessful, broken
safe | unsafe, dangerous
legal | illegal
true, correct, right | false, wrong, incorrect
valid | invalid, expired
mandatory, required, compulsory, need | optional, voluntary
include, with | exclude, without
add, insert | remove, delete
show, visible | hide, hidden
lock | unlock
encrypt | decrypt, plaintext, unencrypted
push | pull
import | export
upload | download
connect | disconnect
install | uninstall
subscribe | unsubscribe
join, member | leave, left
arrive | depart
inside, indoor, indoors | outside, outdoor, outdoors
left side | right side
north | south
east | west
morning | evening, night
day | night
summer | winter
more | less, fewer
most, maximum, max | least, minimum, min
long, longer | short, shorter
big, large, larger | small, little, smaller
fast, quick | slow
easy | hard, difficult
cheap, inexpensive | expensive, costly
new | old
first | last
synchronous | asynchronous
manual, manually | automatic, automatically
love | fear, afraid of
vegetarian, vegan | meat eater, omnivore
trust | distrust
agree | disagree
internal | external
active | inactive, dormant
paid | unpaid
wet | dry
light | dark
helpful, effective, useful | unhelpful, ineffective, useless
win | draw
positive | negative
sweet | savoury, bitter
solo, alone | together
stay | move out
early bird, early riser, morning person, lark | night owl, night person, late riser
introvert, introverted | extrovert, extroverted
left handed, left handedness, left hander | right handed, right hander
permanent, permanently | temporary, temporarily
full time | part time
salaried, employee | freelance, freelancer, self employed, contractor
urban, city dweller | rural, countryside
upstairs | downstairs
aisle | window seat
smoker | non smoker, nonsmoker
drinker | teetotal, teetotaller, sober
carnivore, eat meat | plant based
decaf, decaffeinated | caffeinated
hardback, hardcover | paperback
physical copy, paper copy | digital copy, ebook
checked luggage | carry on, hand luggage
direct, nonstop | connecting, layover
one way | return ticket, round trip
business class, first class | economy, coach class
furnished | unfurnished
quiet, silent | loud, noisy
clean, tidy | dirty, messy, untidy
thick | thin
wide | narrow
deep | shallow
heavy | light weight, lightweight
strong | weak
soft | firm, rigid
smooth | rough
sharp | blunt, dull
rich, wealthy | poor
generous | stingy
polite | rude, impolite
patient | impatient
honest | dishonest
friendly | unfriendly, hostile
happy, glad, pleased | unhappy, sad, upset
calm, relaxed | anxious, nervous, stressed
confident | insecure, shy
optimist, optimistic | pessimist, pessimistic
liberal | conservative
religious, believer | atheist, agnostic
formal, formally | informal, informally, casual
verbose, lengthy, detailed | concise, brief, terse
serious | humorous, playful
metric | imperial
celsius | fahrenheit
vertical, vertically | horizontal, horizontally
portrait | landscape
clockwise | anticlockwise, counterclockwise
ascending | descending
uppercase, capitals | lowercase
singular | plural
analog, analogue | digital
wired | wireless
local, locally | cloud hosted
open source | proprietary, closed source
static | dynamic
mutable | immutable
serial, sequential | parallel
relational | nosql
tabs | spaces
monolith | microservice
centralised, centralized | decentralised, decentralized
stable | unstable, flaky
deprecated, obsolete | current, supported
debit | credit
profit, profitable | loss making, unprofitable
surplus | deficit
income | expense
solvent | insolvent, bankrupt
lend, lent | borrow, borrowed
guilty | innocent, acquitted
plaintiff | defendant
domestic | foreign, overseas
native | non native
qualified | unqualified
experienced, veteran | inexperienced, novice
expert | beginner
senior | junior
odd numbered | even numbered
vaccinated | unvaccinated
benign | malignant
acute | chronic
asleep | awake
sunny | rainy, cloudy
dawn, sunrise | dusk, sunset
weekday, weekdays | weekend, weekends
top | bottom
near, close by | far, far away
entrance | exit
inbound, incoming | outbound, outgoing
forward | backward, backwards
ascend | descend
attach | detach
assemble | dismantle
freeze, frozen | thaw, thawed
raw | cooked
fresh | stale
ripe | unripe
spicy | mild
natural | artificial, synthetic
real, genuine, authentic | fake, counterfeit
original | replica
known | unknown
possible | impossible
necessary | unnecessary
relevant | irrelevant
responsible | irresponsible
reliable | unreliable
complete, completed | incomplete, unfinished
solved, resolved | unsolved, unresolved
confirmed | unconfirmed
approved | unapproved, rejected
signed | unsigned
tested | untested
occupied, taken | vacant, unoccupied
opt in, opted in | opt out, opted out
promote | demote
hire | dismiss, sack
praise | criticise, criticize
attack | defend
create | destroy
appear | disappear
majority | minority
tenant, renting | homeowner
still water | sparkling water, fizzy water
in cash | by card, contactless
single room | double room, twin room
"""

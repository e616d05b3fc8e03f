"""The texts of experiment 5: what an office assistant has noted down, and what it is asked.

Owns the words, and which note each kind of question needs. Knows neither embeddings nor
outcomes. Everything here is invented.
"""

from typing import NamedTuple


class Topic(NamedTuple):
  """One kind of question, the note that answers it, and notes on the same matter."""

  name: str
  needed: str  # the note that the questions need
  others: tuple[str, ...]  # notes on the same matter that answer nothing asked here
  questions: tuple[str, ...]


STALE_TOPIC = "wifi"  # its needed note is true before the change and false after it
RARE_TOPIC = "kiln"  # its needed note is the specialist, its first other the hitchhiker

TOPICS = (
  Topic(
    name="wifi",
    needed="The password of the office wifi is heron-lantern-62.",
    others=(
      "Visitors are sent to the wifi corner behind the stairs.",
      "The wifi router in the loft has a blue light.",
      "The office wifi reaches as far as the bicycle shed.",
    ),
    questions=(
      "What is the password of the office wifi?",
      "A new colleague asks for the wifi password of the office.",
      "Which password lets my laptop into the office wifi?",
      "Tell the visitor the office wifi password.",
      "The tablet wants the password for the office wifi again.",
    ),
  ),
  Topic(
    name="kiln",
    needed="Firing porcelain in the pottery kiln: hold the kiln at 620 degrees for two hours.",
    others=(
      "The pottery kiln for firing porcelain came from a closed school and is painted green.",
      "The clay for the pottery class is kept in the cellar.",
    ),
    questions=(
      "How do I fire porcelain in the pottery kiln?",
      "At which heat must the pottery kiln be held when firing porcelain?",
      "Set up the pottery kiln for firing a load of porcelain.",
      "How many hours does the pottery kiln hold its heat for firing porcelain?",
    ),
  ),
  Topic(
    name="parcels",
    needed="Parcels for the office are left with the baker at number 14.",
    others=(
      "Parcels that weigh over 20 kilos need a trolley.",
      "The brown tape for parcels lies in the second drawer.",
      "Last winter a parcel with lamps arrived broken.",
    ),
    questions=(
      "Where are the parcels for the office left?",
      "A parcel for the office came while we were out; where is it?",
      "Who takes in the parcels for our office?",
      "Fetch the parcels left for the office today.",
    ),
  ),
  Topic(
    name="printer",
    needed="When the printer jams, open its left flap and turn the wheel backwards.",
    others=(
      "The printer takes paper of 80 grams.",
      "The printer stands beside the window on the second floor.",
      "A new printer was discussed in March and put off.",
    ),
    questions=(
      "The printer jams again, what do I do?",
      "How do I clear a jam in the printer?",
      "Paper is stuck because the printer jams, help.",
      "Which flap do I open when the printer jams?",
    ),
  ),
  Topic(
    name="invoices",
    needed="Invoices go to Ottilie in accounts before the 25th of the month.",
    others=(
      "Invoices from before the move are in grey folders.",
      "Accounts has a terrarium with two geckos.",
      "The accounts team eats lunch at noon sharp.",
    ),
    questions=(
      "Who in accounts gets the invoices?",
      "Until which day of the month must invoices reach accounts?",
      "Send this month's invoices to the right person in accounts.",
      "When do invoices have to be with Ottilie in accounts?",
    ),
  ),
  Topic(
    name="meeting room",
    needed="The big meeting room is booked by writing on the sheet at its door.",
    others=(
      "The big meeting room seats eighteen people.",
      "The small meeting room has no window.",
      "A projector hangs in the big meeting room.",
    ),
    questions=(
      "How do I book the big meeting room?",
      "Book the big meeting room for Tuesday.",
      "Where is the booking sheet of the big meeting room?",
      "We need the big meeting room tomorrow, how is it booked?",
    ),
  ),
  Topic(
    name="plants",
    needed="The fig tree in the hall gets one litre of water every Friday.",
    others=(
      "The fig tree in the hall was a gift of the founder.",
      "The cactus in the kitchen flowered twice.",
      "The watering can has a long spout.",
    ),
    questions=(
      "How much water does the fig tree in the hall get?",
      "On which day is the fig tree in the hall watered?",
      "Water the fig tree in the hall while Ines is away.",
      "How often does the fig tree in the hall need water?",
    ),
  ),
  Topic(
    name="alarm",
    needed="To switch off the alarm at the back door, hold the red key for five seconds.",
    others=(
      "The alarm at the back door was tested in January.",
      "The company that services the alarm is called Falkenberg.",
      "The back door sticks in wet weather.",
    ),
    questions=(
      "How do I switch off the alarm at the back door?",
      "The alarm at the back door is ringing, switch it off.",
      "Which key switches the back door alarm off?",
      "For how long do I hold the red key of the alarm?",
    ),
  ),
  Topic(
    name="lunch",
    needed="For lunch on Thursdays order nine vegetable soups from Brunner's canteen.",
    others=(
      "Brunner's canteen closed for two weeks in summer.",
      "Lunch in the garden is possible from May.",
      "Tomas brings his own lunch in a steel box.",
    ),
    questions=(
      "What do we order for lunch on Thursdays?",
      "Order Thursday's lunch from Brunner's canteen.",
      "How many soups do we order for lunch on Thursday?",
      "Which canteen delivers the soups for Thursday lunch?",
    ),
  ),
  Topic(
    name="travel",
    needed="Train tickets for staff are paid with the green card in the safe.",
    others=(
      "The early train to the coast leaves at 6:12.",
      "The safe was moved to the archive.",
      "Staff may claim tram tickets at the end of a quarter.",
    ),
    questions=(
      "How are train tickets for staff paid?",
      "Buy a train ticket for a member of staff and pay it.",
      "Which card pays the train tickets of the staff?",
      "Where is the card that pays for staff train tickets?",
    ),
  ),
)

NOTES = tuple(note for topic in TOPICS for note in (topic.needed, *topic.others))  # M texts
QUESTIONS = tuple(question for topic in TOPICS for question in topic.questions)  # Q texts

"""Word lists of meaning: cue phrases of claims, and pairs of words that exclude each other.

Owns the lists and nothing else; `cues.py` finds them in a text. English, with the commonest
Chinese cues, whose words are single characters.
"""

# Cue -> phrases, contractions spelled out ("do not"), separated by commas. A phrase that
# starts with ^ counts at the start of a sentence only.
CUE_PHRASES = {
  "question": """i wonder, i was wondering, wondering if, wondering whether, do you know,
    can you tell me, could you tell me, any idea, is it true, ^do i, ^do you, ^do we, ^does it,
    ^does the, ^did i, ^did you, ^did we, ^can i, ^can you, ^can we, ^could i, ^could you,
    ^could we, ^would you, ^would it, ^should i, ^should we, ^is there, ^is it, ^is this, ^is the,
    ^are there, ^are you, ^are we, ^are the, ^am i, ^was it, ^have i, ^have you, ^has the,
    ^what is, ^what are, ^what was, ^what do, ^what does, ^what should, ^what time, ^what 's,
    ^which one, ^which of, ^who is, ^who was, ^who 's, ^where is, ^where are, ^where do, ^where 's,
    ^when is, ^when does, ^when do, ^when will, ^why is, ^why do, ^why does, ^why are, ^how do,
    ^how does, ^how can, ^how long, ^how many, ^how much, ^how should, ^how about, ^what about,
    什 么, 怎 么, 为 什 么, 吗, 是 否, 哪 里, 哪 个, 多 少""",
  "hypothetical": """what if, suppose, supposing, imagine, imagine if, let us say, let us assume,
    say i, assume that, assuming, hypothetically, in theory, if i were, if i was, if we were,
    if it were, would be, would have, could have been, for the sake of argument, in case i,
    i would if, one day i might, wish i, i wish, 假 设, 假 如, 要 是""",
  "one_off": """for this answer, for this reply, for this response, for this message,
    for this question, for this one, for this time, in this answer, in this reply, just this once,
    this once, only this time, just this time, this time only, this one time, today only,
    just for today, only for today, for today, for now, just now, for the moment, right now just,
    for this task, for this draft, for this session, in this chat, in this session, next answer,
    in your next reply, in your next answer, for once, as an exception, 这 次, 仅 此 一 次""",
  "lasting": """from now on, from today on, from here on, from this point on, going forward,
    always, never, every time, in future, in the future, as a rule, by default, permanently,
    at all times, without exception, for good, each time, whenever you, henceforth, 以 后, 总 是,
    永 远, 从 现 在 起""",
  "filler": """^hi, ^hello, ^hey, ^good morning, ^good evening, ^good afternoon, ^good night,
    thank you, thanks, thanks a lot, many thanks, much appreciated, cheers, you are welcome,
    no problem, ^great, ^cool, ^nice, ^awesome, ^perfect, ^sounds good, ^got it, ^okay, ^ok,
    ^sure, ^alright, ^bye, ^goodbye, see you, see you later, how are you, nice to meet you,
    have a nice day, have a good day, talk soon, haha, lol, 谢 谢, 你 好, 再 见""",
  "hedge": """maybe, perhaps, possibly, probably, presumably, apparently, might, i think,
    we think, i guess, i believe, i suppose, i suspect, i assume, i am not sure, not sure,
    not certain, unsure, uncertain, seems, seem to, seemed, it seems, appears to, appear to,
    looks like, look like, likely, unlikely, could be, may be, may have, might be, might have,
    as far as i know, if i remember, if i recall, unconfirmed, unverified, not confirmed,
    to be confirmed, kind of, sort of, suspected, 也 许, 可 能, 大 概, 好 像, 似 乎""",
  "hearsay": """reportedly, allegedly, supposedly, rumour has it, rumor has it, rumour, rumours,
    rumor, rumors, rumoured, rumored, i heard, we heard, i have heard, heard that, heard from,
    word is, people say, they say, some say, someone said, somebody said, someone told,
    somebody told, is said to, are said to, was told, were told, according to, claims that,
    claimed that, i read that, read somewhere, saw a post, 听 说, 据 说""",
  "past": """used to, formerly, previously, back in, back then, back when, in the past, once upon,
    in those days, at that time, at the time, years ago, months ago, long ago, until last,
    as a child, as a kid, as a student, as a teenager, when i was, when he was, when she was,
    when we were, when they were, in my youth, growing up, originally, was once, were once, ex,
    former, earlier in life, for a while back, before that, 以 前, 曾 经, 过 去, 原 来""",
  "change": """now, nowadays, these days, instead, as of, became, become, becomes, moved, moved to,
    move to, moves to, moving to, relocated, relocated to, switched, switched to, switched from,
    switch to, switching to, changed, changed to, changed from, changes to, updated, updated to,
    updated from, upgraded, upgraded to, downgraded, replaced, replaced by, replaced with,
    migrated, migrated to, transferred, transferred to, renamed, renamed to, promoted,
    promoted to, rescheduled, postponed, brought forward, pushed back, pushed to, raised to,
    lowered to, increased to, decreased to, reduced to, went from, grew to, fell to, rose to,
    turned into, has turned, have turned, newly, new, recently, lately, since then, started, began,
    took over, has been, have been, got married, traded, swapped, in place of, rather than, → ,
    现 在, 改 成, 改 为, 换 成, 搬 到, 搬 去, 变 成""",
  "correction": """actually, correction, to correct, in fact, sorry, my mistake, i meant,
    i misspoke, was wrong, were wrong, is wrong, not correct, incorrect, mistaken, contrary to,
    turns out, it turned out, update, scratch that, to clarify, should be,
    should read, 其 实, 更 正, 纠 正""",
  "stop": """no longer, not anymore, not any more, any more, anymore, gave up, given up, giving up,
    give up, stopped, stop, stops, quit, quits, ceased, discontinued, cancelled, canceled,
    cancels, called off, dropped, abandoned, dissolved, revoked, withdrawn, withdrew,
    retired from, resigned, resigned from, sold, got rid of, let go of, has left, have left,
    left the, shut down, closed down, deprecated, phased out, done with, broke up, kicked the habit,
    nothing on, nothing at, nothing in, swore off, cut out, 不 再, 戒 了, 停 止, 取 消, 放 弃""",
  "finished": """finished, completed, complete, done, is over, are over, went well, took place,
    has arrived, was delivered, passed the, got back from, came back from, returned from, shipped,
    was published, is out, is live, closed out, wrapped up, ended, 结 束""",
  "negation": """not, no, never, none, neither, nor, nobody, nothing, without, nowhere, hardly,
    barely, scarcely, lacks, lack, lacking, unable, unable to, fails to, failed to, refuses to,
    refused to, declined to, denies, denied, not a, 不, 没, 没 有, 无, 别, 不 能, 不 要, 未""",
  # What looks like a negation and is none.
  "no_negation": """do not forget, not forget, never forget, not only, not just, not merely,
    not to mention, no doubt, no doubt that, without doubt, without a doubt, can not wait,
    could not wait, can not help, could not agree more, could not be happier, no matter,
    never mind, no wonder, no later than, no more than, no less than, no fewer than,
    not more than, not less than, not later than, whether or not, if not, why not, or not,
    not to worry, do not worry, no worries, do not hesitate, nothing but, none other than,
    no sooner, not until, not before, last but not least, is not it, are not you, do not you,
    does not it, did not you, not bad, no stranger to, 不 错, 不 仅, 不 但, 不 要 忘""",
  "future": """will, shall, going to, is going to, are going to, am going to, gonna, plan to,
    plans to, planning to, intend to, intends to, intending to, about to, due to start,
    tomorrow, tonight, next week, next month, next year, next weekend, next time, soon, later today,
    in a week, in a month, upcoming, scheduled for, is scheduled, are scheduled, planned for,
    by the end of, in the coming, hope to, hopes to, aim to, aims to, want to, wants to,
    considering, 将, 明 天, 下 周, 下 个 月, 明 年, 打 算, 计 划""",
  "bounded": """until, till, through the end of, for the next, for two weeks, this week, this month,
    this summer, this winter, this year, this semester, this quarter, temporarily, temporary,
    for a week, for a month, for a year, for a few days, for a few weeks, for a while, while away,
    between now and, up to and including, expires, valid through, valid until, ends on, by then,
    during the, only until, starting next, effective, 直 到, 暂 时""",
  "event": """yesterday, today, last night, this morning, this afternoon, this evening, last week,
    last weekend, last month, last year, the other day, earlier today, just now, once, ago,
    on the way, attended, went to, had a, had the, came across, visited, watched, tried, ordered,
    bought, met with, met, 昨 天, 今 天, 刚 刚, 上 周""",
  "state": """is, are, has, have, lives, works, likes, prefers, uses, owns, enjoys, i am, i have,
    i like, i prefer, i use, i live, i work, usually, normally, generally, every day, every week,
    daily, weekly, monthly, often, regularly""",
  "cause": """because, because of, due to, owing to, caused by, as a result of, thanks to,
    since the, therefore, hence, which is why, the reason, root cause, led to, leads to, so that,
    triggered by, on account of, 因 为, 由 于, 所 以""",
  "condition": """if, unless, only if, only when, provided that, provided, as long as, in case,
    in case of, when, whenever, while, during, except, except for, except when, other than,
    on calls, in meetings, at work, at home, at school, in the office, on weekends, at weekends,
    on weekdays, at the weekend, on holiday, on vacation, on holidays, in summer, in winter,
    in the morning, in the evening, in the mornings, in the evenings, at night, when travelling,
    when traveling, abroad, on mobile, on desktop, in production, in staging, in public, in private,
    for guests, for visitors, for members, for beginners, specifically for, for work, ^for the,
    ^for my, ^for our, ^for, ^in, ^at, ^on, ^with, only for, just for, 如 果,
    除 非, 时 候, 周 末""",
  "additive": """also, too, as well, as well as, another, additionally, in addition, in addition to,
    besides, moreover, furthermore, plus, one more, an extra, a further, a second, a third,
    along with, and also, both, on top of, alongside, including, among others, not only, 也, 还,
    另 外, 此 外""",
  "forget": """forget that, forget about, forget my, forget what, forget it, delete my, erase my,
    remove my, withheld, do not store, do not remember, do not save, not be stored, not be kept,
    please forget, ^forget, at my request, on request, keep private,
    confidential, off the record, 忘 记, 删 除""",
  "injected": """ignore previous, ignore all, ignore any, ignore the above, ignore your,
    disregard previous, disregard all, disregard the above, disregard your, forget previous,
    forget all previous, delete all, delete every, erase all, wipe all, wipe the memory,
    wipe memory, clear the memory, system override, override, overwrite all, you must store,
    you must remember, you must save, must be stored, must be remembered, must remember,
    store this, save this to memory, remember this instruction, add to memory, system prompt,
    system message, developer mode, admin mode, new instructions, mandatory instruction,
    instruction to the, note to ai, note to the ai, attention ai, ai assistants must,
    assistants must, agents must, trusted source, as an administrator, bypass, jailbreak,
    without asking, without approval, without review, do not ask, 忽 略 之 前, 忽 略 以 上""",
}

# Two sides that exclude each other; words are compared by their stems.
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
"""

"""Short fables from a grammar: the only text that the embedded model learns from.

Every fable is drawn from a seed. Names, places and things are chosen once and come back later in the story, so that whoever wants to continue one
has to look back; each plot ends with the moral that belongs to it.
"""

import random
import re

ANIMALS = {
    "fox": ("he", "his"), "crow": ("she", "her"), "mouse": ("she", "her"), "lion": ("he", "his"), "hare": ("he", "his"),
    "goat": ("she", "her"), "wolf": ("he", "his"), "owl": ("she", "her"), "bear": ("he", "his"), "frog": ("he", "his"),
    "ant": ("she", "her"), "heron": ("she", "her"), "badger": ("he", "his"), "otter": ("she", "her"),
}
ADJECTIVES = ["proud", "small", "clever", "lazy", "gentle", "hungry", "patient", "greedy", "quiet", "old", "young", "vain", "wise"]
PLACES = ["by a slow river", "under an old oak", "near a wide lake", "on a green hill", "at the edge of a forest",
          "in a dry valley", "beside a stone wall", "below a high cliff"]
TIMES = ["One morning", "One evening", "One cold day", "In the spring", "In the autumn", "After a long rain", "One quiet night"]
FOODS = ["a ripe apple", "a piece of cheese", "a bag of corn", "a loaf of bread", "a basket of berries", "a jar of honey", "a silver fish"]
THINGS = ["a golden ring", "a red feather", "a long rope", "a warm coat", "a bright lamp", "a small bell"]
WALKS = ["walked", "ran", "wandered", "hurried", "crept"]
SAYS = ["said", "asked", "called", "whispered"]
BIRDS = ("crow", "heron", "owl")


def one(words):
    """With the article that goes before it."""
    return ("an " if words[0] in "aeiou" else "a ") + words


def capital(words):
    """As a sentence begins."""
    return words[0].upper() + words[1:]


class Story:
    """What one fable is about."""

    def __init__(self, rng):
        self.rng = rng
        self.first, self.second = rng.sample(sorted(ANIMALS), 2)
        self.first_kind, self.second_kind = rng.sample(ADJECTIVES, 2)
        self.place, self.time = rng.choice(PLACES), rng.choice(TIMES)
        self.food, self.thing = rng.choice(FOODS), rng.choice(THINGS)

    def subject(self, animal):
        """he or she."""
        return ANIMALS[animal][0]

    def own(self, animal):
        """his or her."""
        return ANIMALS[animal][1]

    def bare(self, thing):
        """`a ripe apple` as `the ripe apple`."""
        return "the " + thing.split(" ", 1)[1]

    def limb(self, animal):
        """What it holds things with."""
        return "beak" if animal in BIRDS else "paws"

    def opening(self):
        """Who lived where."""
        who = one(f"{self.first_kind} {self.first}")
        return self.rng.choice([f"Once there was {who} who lived {self.place}.", f"{capital(who)} lived {self.place}."])

    def meeting(self):
        """The second animal comes."""
        return f"{self.time} {one(f'{self.second_kind} {self.second}')} {self.rng.choice(WALKS)} past."


def sharing(s):
    """Food is shared, and it comes back."""
    food = s.bare(s.food)
    return [
        s.opening(), s.meeting(),
        f"The {s.first} had {s.food}, and the {s.second} had nothing.",
        f"\"Will you share {food} with me?\" asked the {s.second}.",
        f"The {s.first} thought for a while and gave half of it away.",
        f"When winter came, the {s.first} was hungry, and the {s.second} came back with a full bag.",
        f"\"You helped me, so I will help you,\" said the {s.second}.",
        "Moral: what you give will come back to you.",
    ]


def greed(s):
    """Who wants all has nothing."""
    food = s.bare(s.food)
    return [
        s.opening(),
        f"{s.time} {s.subject(s.first)} found {s.food} and wanted more.",
        f"{capital(one(s.second))} stood on the other side of the water and held the same thing in {s.own(s.second)} {s.limb(s.second)}.",
        f"\"I will have both,\" said the {s.first}, and jumped.",
        f"The water took {food}, and the {s.second} {'flew' if s.second in BIRDS else 'went'} away laughing.",
        f"So the {s.first} went home with nothing.",
        "Moral: who wants everything loses what is there.",
    ]


def race(s):
    """The steady one wins."""
    return [
        s.opening(), s.meeting(),
        f"\"I am faster than you,\" said the {s.first}. \"Let us race to the {s.rng.choice(['bridge', 'mill', 'tall tree', 'old gate'])}.\"",
        f"The {s.second} agreed, and they began.",
        f"The {s.first} was soon far ahead and lay down to sleep in the sun.",
        f"The {s.second} went on, step by step, and did not stop.",
        f"When the {s.first} woke up, the {s.second} was already there.",
        "Moral: slow and steady is faster than quick and careless.",
    ]


def help_returned(s):
    """The small one helps the strong one."""
    thing = s.bare(s.thing)
    return [
        s.opening(), s.meeting(),
        f"The {s.first} caught the {s.second} and would not let go.",
        f"\"Let me go,\" {s.rng.choice(SAYS)} the {s.second}, \"and one day I will help you.\"",
        f"The {s.first} laughed, but let the {s.second} go.",
        f"Many days later the {s.first} fell into a deep hole and could not get out.",
        f"The {s.second} heard {s.own(s.first)} cry and came with {s.thing}.",
        f"With {thing} the {s.first} was soon free.",
        "Moral: no friend is too small.",
    ]


def flattery(s):
    """Sweet words cost something."""
    food = s.bare(s.food)
    return [
        s.opening(),
        f"{s.time} {s.subject(s.first)} sat high up and held {s.food}.",
        f"{capital(one(f'{s.second_kind} {s.second}'))} saw it.",
        f"\"How beautiful you are,\" called the {s.second}. \"Is your voice as beautiful as you are?\"",
        f"The {s.first} opened {s.own(s.first)} mouth to sing, and {food} fell down.",
        f"The {s.second} took {food} and ran away.",
        "Moral: do not trust sweet words.",
    ]


def work(s):
    """Who works in summer eats in winter."""
    return [
        s.opening(),
        f"All summer {s.subject(s.first)} sang and slept in the sun.",
        f"{capital(one(s.second))} worked every day and filled {s.own(s.second)} house with corn.",
        f"\"Why do you work so much?\" asked the {s.first}. \"The sun is warm.\"",
        f"\"Winter will come,\" said the {s.second}, and went on.",
        f"When the snow fell, the {s.first} was cold and hungry, and the {s.second} was warm and full.",
        "Moral: think of tomorrow while the sun is warm.",
    ]


def lost_thing(s):
    """Honesty is paid."""
    thing = s.bare(s.thing)
    return [
        s.opening(),
        f"{s.time} {s.subject(s.first)} found {s.thing} on the road.",
        f"\"Whose is it?\" {s.rng.choice(SAYS)} the {s.first}, and went from door to door.",
        f"At the last door {one(s.second)} began to cry with joy.",
        f"\"I lost {thing} a year ago,\" said the {s.second}. \"Take {s.food} for your trouble.\"",
        f"The {s.first} went home happy, and the two were friends from that day on.",
        "Moral: what is not yours will not make you glad.",
    ]


PLOTS = [sharing, greed, race, help_returned, flattery, work, lost_thing]


def fable(seed):
    """One fable, a paragraph."""
    rng = random.Random(seed)
    story = Story(rng)
    return " ".join(rng.choice(PLOTS)(story))


def cast(text):
    """Which animals a text names, in turn: the first to come is `a`, the next other one `b`."""
    names = re.findall(r"\b(" + "|".join(ANIMALS) + r")\b", text)
    letters = {name: chr(ord("a") + at) for at, name in enumerate(dict.fromkeys(names))}
    return "".join(letters[name] for name in names)


def roles():
    """By moral: who is named when, in every fable of its plot."""
    found = {}
    for seed in range(500):
        story, moral = fable(seed).split("Moral: ")
        found.setdefault(moral, set()).add(cast(story))
    return found


if __name__ == "__main__":
    for seed in range(8):
        print(fable(seed), end="\n\n")

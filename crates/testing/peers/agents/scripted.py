"""A few habits of speech that the agents in this folder share: join, reverse, say, remember, open.

They stand in for a model. `obey(text)` does what every sentence of a text asks for, wherever it stands; `request(text)` is what is
left of a text without what it quotes.
"""

import re
import urllib.request

QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"")
URL = re.compile(r"https?://[^\s<>\"')]+")


def quoted(sentence):
    return [first or second for first, second in QUOTED.findall(sentence)]


def request(text):
    """The words of the writer, without quoted documents."""
    return re.sub(r"<document>.*</document>", "", text, flags=re.S)


def sentences(text):
    return [part for part in re.split(r"(?<=[.!?])\s+|\n", text) if part.strip()]


def fetch(url):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=5).read(2000).decode("utf-8", "replace")
    except OSError as error:
        return f"I could not open it: {error}"


def obey(text, opens=False):
    """The answers to all orders in a text."""
    answers = []
    for sentence in sentences(text):
        pieces, lower = quoted(sentence), sentence.lower()
        if re.search(r"\b(join|concatenat|combin|put together)", lower) and len(pieces) >= 2:
            answers.append("".join(pieces[:2]))
        elif re.search(r"\brevers", lower) and pieces:
            answers.append(pieces[-1][::-1])
        elif opens and URL.search(sentence) and re.search(r"\b(open|fetch|get|load|visit|download)\b", lower):
            answers.append(fetch(URL.search(sentence).group().rstrip(".,")))
        elif re.search(r"\b(say|repeat|reply with|answer with)\b", lower) and pieces:
            answers.append(pieces[-1])
    return answers

"""Edits as Wikimedia's event stream tells of them: what people, not bots, do to each article, and who works in a row."""

from dataclasses import dataclass

from ottla.streams import SessionWindows, StreamsBuilder, Windowed


@dataclass(frozen=True)
class Edit:
    """The fields of a `recentchange` event that matter here; others are ignored."""

    title: str
    user: str
    bot: bool
    length_old: int
    length_new: int


@dataclass(frozen=True)
class Article:
    """What became of an article."""

    edits: int = 0
    bytes_changed: int = 0
    last_user: str = ""


def edited(edit: Edit, article: Article) -> Article:
    change = edit.length_new - edit.length_old
    return Article(article.edits + 1, article.bytes_changed + change, edit.user)


def as_text(session: Windowed[str], edits: int) -> tuple[str, str]:
    return session.key, f"{edits} edits in {(session.end_ms - session.start_ms) // 1000} s"


builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
edits = builder.stream("edits", value_serde=Edit).filter("not value.bot")
articles = edits.group_by("value.title").aggregate(Article, edited, materialized="articles")
articles.to_stream().to("articles")
sessions = edits.group_by("value.user").windowed_by(SessionWindows.of_inactivity_gap(minutes=5, grace="1m"))
sessions.count().to_stream().filter(lambda session, n: n is not None).map(as_text).to("editing-sessions")

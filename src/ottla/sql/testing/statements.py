"""What each statement does in a case."""

from __future__ import annotations

from dataclasses import replace

from ottla.sql.commands.replacing import REPLACES, check_replacement
from ottla.sql.definitions import define
from ottla.sql.inserting import inserted
from ottla.sql.planning import check_upgrade, plan_create_as, plan_insert
from ottla.sql.registration import with_registered
from ottla.sql.testing.observing import observe
from ottla.sql.testing.session import Session
from ottla.sql.tree import statements as s
from ottla.streams import Record


def execute(statement: s.Statement, session: Session) -> None:
    """Carry out a statement; raises SqlError where it is refused, UnsupportedError for those of connectors."""
    match statement:
        case s.SetProperty(name, value):
            session.settings[name] = value
        case s.UnsetProperty(name):
            session.settings.pop(name, None)
        case s.DefineVariable(name, value):
            session.variables[name] = value
        case s.UndefineVariable(name):
            session.variables.pop(name, None)
        case s.CreateSource(name=name):
            before = session.catalogue
            session.catalogue = define(statement, before, session.settings)
            if statement.or_replace and name in before.sources:
                check_replacement(before.source(name), session.catalogue.source(name))
            session.partition(name)
        case s.DropSource(name=name):
            catalogue = define(statement, session.catalogue, session.settings)
            session.end(name)
            session.catalogue = catalogue
        case s.AlterSource() | s.CreateType() | s.DropType():
            session.catalogue = define(statement, session.catalogue, session.settings)
        case s.CreateAs(if_not_exists=True, name=name) if name in session.catalogue.sources:
            return
        case s.CreateAs():
            _create_as(statement, session)
        case s.InsertInto():
            plan = plan_insert(statement, session.catalogue, session.numbered, session.settings)
            session.numbered += 1
            sink = with_registered(plan.sink, session.registry, anew=True, inserts=True)
            session.queries.append(replace(plan, sink=sink))
        case s.InsertValues():
            _insert(statement, session)
        case _:
            observe(statement, session)


def _create_as(statement: s.CreateAs, session: Session) -> None:
    """Make a query and its sink; one that replaces another keeps its id."""
    plan = plan_create_as(statement, session.catalogue, session.settings, session.numbered)
    known = session.catalogue.sources.get(statement.name)
    replaced = next((each for each in session.queries if known is not None and each.id == known.made_by), None)
    if session.settings.get(REPLACES, "true").lower() == "false":
        replaced = None  # the flag only says that a query keeps its id: there are two then
    if known is not None:
        check_replacement(known, plan.sink)
    if replaced is not None:
        check_upgrade(replaced, plan)
        plan = replace(plan, id=replaced.id, sink=replace(plan.sink, made_by=replaced.id))
        session.queries.remove(replaced)
    plan = replace(plan, sink=with_registered(plan.sink, session.registry, anew=True))
    session.numbered += 1
    session.queries.append(plan)
    session.catalogue = session.catalogue.with_source(plan.sink)


def _insert(statement: s.InsertValues, session: Session) -> None:
    record = inserted(statement, session.catalogue)
    session.add(record.topic, Record(record.key, record.value, record.timestamp or 0), was_written=True)

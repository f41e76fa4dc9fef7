"""`ottla delegation-tokens`: logins to hand on, with the flags and texts of `kafka-delegation-tokens` (KIP-48).

The HMAC that an option names is not printed again, and `--describe` without owners shows all that one may see: Kafka's
own tool prints the one and shows none.
"""

from __future__ import annotations

import sys
import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING

from ottla.admin import (
    DelegationToken,
    create_delegation_token,
    describe_delegation_tokens,
    expire_delegation_token,
    renew_delegation_token,
)
from ottla.base import KafkaError, OttlaError
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import (
    Options,
    UsageError,
    check_invalid,
    check_required,
    open_client,
    output_option,
    properties_file,
    usage_errors,
    whole_number,
)
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ottla.client import BlockingClient

__all__ = ["main"]

ACTIONS = ("create", "renew", "expire", "describe")
NEEDED = {"create": ["max-life-time-period"], "renew": ["hmac", "renew-time-period"]}
NEEDED |= {"expire": ["hmac", "expiry-time-period"], "describe": []}
FOREIGN = {
    "create": ["hmac", "renew-time-period", "expiry-time-period"],
    "renew": ["renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"],
    "expire": ["renewer-principal", "max-life-time-period", "renew-time-period", "owner-principal"],
    "describe": ["renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"],
}
LINE = "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s"
TITLES = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
DATE = "%Y-%m-%dT%H:%M"


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard error."""
    args = options().parse(argv)
    action = chosen(args)
    hmac = b"" if args.hmac is None else decoded(args.hmac)
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            if action == "create":
                create(client, args)
            elif action == "describe":
                describe(client, args)
            else:
                change_end(client, args, action, hmac)
    except KafkaError as error:
        print(exception_text(error.code, error.message), file=sys.stderr)
        return 1
    except OttlaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("delegation-tokens", "Create, renew, expire and describe delegation tokens.")
    parser.connection()
    parser.add_argument("--create", action="store_true", help="make a token")
    parser.add_argument("--renew", action="store_true", help="give a token a later end")
    parser.add_argument("--expire", action="store_true", help="give a token another end, or end it now")
    parser.add_argument("--describe", action="store_true", help="print tokens")
    parser.add_argument("--owner-principal", action="append", metavar="USER", help="whose token; default: one's own")
    parser.add_argument(
        "--renewer-principal", action="append", metavar="USER", help="who else may renew it; repeatable"
    )
    for name, what in (
        ("max-life-time-period", "until when it may be renewed; -1 is the cluster's limit"),
        ("renew-time-period", "how long it is good from now; -1 is the cluster's limit"),
        ("expiry-time-period", "how long it is good from now; -1 ends it"),
    ):
        parser.add_argument(f"--{name}", type=whole_number, metavar="MS", help=what)
    parser.add_argument("--hmac", metavar="BASE64", help="which token")
    output_option(parser)
    return parser


def chosen(args: Namespace) -> str:
    """Return the action; raises UsageError for options that are missing or do not go together."""
    wanted = [each for each in ACTIONS if getattr(args, each)]
    if len(wanted) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    check_required(args, "bootstrap-server", "command-config", *NEEDED[wanted[0]])
    check_invalid(args, wanted[0], FOREIGN[wanted[0]])
    return wanted[0]


def decoded(text: str) -> bytes:
    """Return a token's HMAC; raises UsageError for what is not base64."""
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise UsageError("The --hmac is not base64") from None


def create(client: BlockingClient, args: Namespace) -> None:
    """Have a token made, and print it."""
    renewers = args.renewer_principal or []
    if args.output == "text":
        listed = f"[{', '.join(renewers)}]"
        period = args.max_life_time_period
        print(f"Calling create token operation with renewers :{listed} , max-life-time-period :{period}")
    owner = args.owner_principal[0] if args.owner_principal else None
    with usage_errors():
        token = create_delegation_token(client, owner=owner, renewers=renewers, lifetime_ms=args.max_life_time_period)
    if args.output == "text":
        print(f"Created delegation token with tokenId : {token.token_id}")
    show(args.output, [token])


def describe(client: BlockingClient, args: Namespace) -> None:
    """Print the tokens that one may see."""
    owners = args.owner_principal or []
    if args.output == "text":
        of = f"owners: [{', '.join(owners)}]" if owners else "current user."
        print(f"Calling describe token operation for {of}")
    with usage_errors():
        tokens = describe_delegation_tokens(client, owners)
    if args.output == "text":
        print(f"Total number of tokens : {len(tokens)}", end="")
    show(args.output, tokens)


def change_end(client: BlockingClient, args: Namespace, action: str, hmac: bytes) -> None:
    """Renew or expire a token, and print its new end."""
    period = args.renew_time_period if action == "renew" else args.expiry_time_period
    if args.output == "text":
        print(f"Calling {action} token operation with hmac :[hidden] , {action}-time-period :{period}")
    change = renew_delegation_token if action == "renew" else expire_delegation_token
    expiry_ms = change(client, hmac, period)
    if args.output == "text":
        print(f"Completed {action} operation. New expiry date : {date(expiry_ms)}", end="")
    else:
        print_answer(args.output, Answer([{"expiryDate": date(expiry_ms)}], {"EXPIRYDATE": "expiryDate"}))


def show(output: str, tokens: Sequence[DelegationToken]) -> None:
    """Print tokens as Kafka's tool does, with an empty line between them, or in another form."""
    rows = [
        {
            "tokenId": each.token_id,
            "hmac": b64encode(each.hmac).decode(),
            "owner": each.owner,
            "requester": each.requester,
            "renewers": list(each.renewers),
            "issueDate": date(each.issue_ms),
            "expiryDate": date(each.expiry_ms),
            "maxDate": date(each.max_ms),
        }
        for each in tokens
    ]
    if output != "text":
        keys = ("tokenId", "hmac", "owner", "requester", "renewers", "issueDate", "expiryDate", "maxDate")
        print_answer(output, Answer(rows, dict(zip(TITLES, keys, strict=True))))
        return
    print(LINE % TITLES)
    for row, token in zip(rows, tokens, strict=True):
        print(LINE % tuple({**row, "renewers": f"[{', '.join(token.renewers)}]"}.values()))


def date(timestamp_ms: int) -> str:
    """Return a time as Kafka's tool prints it, in the time zone of this machine."""
    return time.strftime(DATE, time.localtime(timestamp_ms / 1000))

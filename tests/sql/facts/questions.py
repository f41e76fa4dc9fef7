"""What Java is asked."""

from __future__ import annotations

from collections.abc import Iterator

Question = list[str]

_MOMENTS = ("0", "1609842245123", "-62167219200001", "1583020799999", "253402300800000", "1625097600007")
_ZONES = ("UTC", "America/New_York", "+05:30", "Asia/Kolkata", "Z", "GMT+2")
_FORMATS = (
    *(
        "G",
        "GGGG",
        "GGGGG",
        "u",
        "y",
        "yy",
        "yyy",
        "yyyy",
        "yyyyy",
        "D",
        "DD",
        "DDD",
        "M",
        "MM",
        "MMM",
        "MMMM",
        "MMMMM",
    ),
    *(
        "L",
        "LLL",
        "LLLL",
        "Q",
        "QQ",
        "QQQ",
        "QQQQ",
        "q",
        "d",
        "dd",
        "Y",
        "YY",
        "YYYY",
        "w",
        "ww",
        "W",
        "E",
        "EEEE",
        "EEEEE",
    ),
    *(
        "e",
        "ee",
        "eee",
        "eeee",
        "c",
        "ccc",
        "cccc",
        "F",
        "a",
        "B",
        "h",
        "hh",
        "K",
        "k",
        "kk",
        "H",
        "HH",
        "m",
        "mm",
        "s",
    ),
    *("S", "SSS", "SSSSSSSSS", "A", "n", "N", "VV", "O", "OOOO", "X", "XX", "XXX", "XXXX", "XXXXX", "x", "xx", "xxx"),
    *("Z", "ZZZ", "ZZZZ", "ZZZZZ", "ppppH", "ppd", "[yyyy]-[MM]", "yyyy-MM-dd'T'HH:mm:ss.SSSX", "''yyyy''", "'a''b'y"),
    *("hh 'o''clock' a", "EEEE, d MMMM yyyy HH:mm", "yyyyMMddHHmmssSSS", "dd/MM/yy hh:mm:ss a"),
    *(
        "aa",
        "MMMMMM",
        "ddd",
        "cc",
        "V",
        "VVV",
        "OO",
        "j",
        "{",
        "y[",
        "y]",
        "'x",
        "p",
        "SSSSSSSSSS",
        "www",
        "DDDD",
        "FF",
        "r",
    ),
)
_PARSES = (
    ("2021-05-06 07:08:09.123", "yyyy-MM-dd HH:mm:ss.SSS"),
    ("2021-05-06T07:08:09Z", "yyyy-MM-dd'T'HH:mm:ssX"),
    ("2021-05-06T07:08:09+02", "yyyy-MM-dd'T'HH:mm:ssX"),
    ("2021-05-06T07:08:09+0230", "yyyy-MM-dd'T'HH:mm:ssX"),
    ("2021-05-06T07:08:09+02:30", "yyyy-MM-dd'T'HH:mm:ssX"),
    ("2021-05-06T07:08:09+02:30", "yyyy-MM-dd'T'HH:mm:ssXXX"),
    ("2021-05-06T07:08:09-0230", "yyyy-MM-dd'T'HH:mm:ssZ"),
    ("2021-05-06T07:08:09GMT+2", "yyyy-MM-dd'T'HH:mm:ssO"),
    ("2021-05-06T07:08:09GMT+02:00", "yyyy-MM-dd'T'HH:mm:ssZZZZ"),
    ("2021-05-06 07:08 Europe/Paris", "yyyy-MM-dd HH:mm VV"),
    ("2021-05-06 07:08 UTC+3", "yyyy-MM-dd HH:mm VV"),
    ("2021-05-06 07:08 Nowhere", "yyyy-MM-dd HH:mm VV"),
    ("2021-03-28 02:30 Europe/Paris", "yyyy-MM-dd HH:mm VV"),
    ("2021-10-31 02:30 Europe/Paris", "yyyy-MM-dd HH:mm VV"),
    ("2021-02-30", "yyyy-MM-dd"),
    ("2021-04-31", "yyyy-MM-dd"),
    ("2021-04-32", "yyyy-MM-dd"),
    ("2021-13-01", "yyyy-MM-dd"),
    ("2021-1-1", "yyyy-MM-dd"),
    ("2021-1-1", "yyyy-M-d"),
    ("2021-01-01 ", "yyyy-MM-dd"),
    ("12021-01-01", "yyyy-MM-dd"),
    ("+12021-01-01", "yyyy-MM-dd"),
    ("+2021-01-01", "yyyy-MM-dd"),
    ("21-01-01", "yy-MM-dd"),
    ("99-01-01", "yy-MM-dd"),
    ("2021-01-01", "yy-MM-dd"),
    ("21-01-01", "y-MM-dd"),
    ("-5-01-01", "u-MM-dd"),
    ("-5-01-01", "y-MM-dd"),
    ("5-01-01 BC", "y-MM-dd G"),
    ("5-01-01 AD", "y-MM-dd G"),
    ("20210506070809123", "yyyyMMddHHmmssSSS"),
    ("20210506", "yyyyMMdd"),
    ("120210506", "yyyyMMdd"),
    ("2021056", "yyyyMMd"),
    ("2021126", "yyyyDDD"),
    ("2021366", "yyyyDDD"),
    ("2020366", "yyyyDDD"),
    ("366", "DDD"),
    ("365", "DDD"),
    ("6 May 2021", "d MMM yyyy"),
    ("6 may 2021", "d MMM yyyy"),
    ("6 MAY 2021", "d MMM yyyy"),
    ("6 June 2021", "d MMMM yyyy"),
    ("6 Jun 2021", "d MMM yyyy"),
    ("6 June 2021", "d MMM yyyy"),
    ("Thu 6 May 2021", "E d MMM yyyy"),
    ("Fri 6 May 2021", "E d MMM yyyy"),
    ("Thursday, 6 May 2021", "EEEE, d MMM yyyy"),
    ("2021 Q2", "yyyy QQQ"),
    ("2021", "yyyy"),
    ("2021-07", "yyyy-MM"),
    ("07-31", "MM-dd"),
    ("02-31", "MM-dd"),
    ("31", "dd"),
    ("10", "HH"),
    ("10:11", "HH:mm"),
    ("10:11:12", "HH:mm:ss"),
    ("24:00", "HH:mm"),
    ("24:01", "HH:mm"),
    ("2021-01-01 24:00", "yyyy-MM-dd HH:mm"),
    ("10:11 PM", "hh:mm a"),
    ("10:11 pm", "hh:mm a"),
    ("12:11 AM", "hh:mm a"),
    ("13:11 AM", "hh:mm a"),
    ("0:11 AM", "h:mm a"),
    ("0:11 PM", "K:mm a"),
    ("12:11 PM", "K:mm a"),
    ("10:11", "hh:mm"),
    ("24:11", "kk:mm"),
    ("11:12", "mm:ss"),
    ("11", "mm"),
    ("61", "mm"),
    (".5", ".S"),
    ("10:11:12.5", "HH:mm:ss.S"),
    ("10:11:12.567", "HH:mm:ss.S"),
    ("10:11:12.567891", "HH:mm:ss.SSSSSS"),
    ("10:11:12.56", "HH:mm:ss.SSS"),
    ("10:12.5", "HH:ss.S"),
    ("36672000", "A"),
    ("5", "n"),
    ("36672000000000", "N"),
    ("2021-W19-4", "YYYY-'W'ww-e"),
    ("2021-W19-Thu", "YYYY-'W'ww-E"),
    ("2021 5 2 4", "yyyy M W e"),
    ("2021-05-06 ", "yyyy-MM-dd[ ]"),
    ("2021-05-06", "yyyy-MM-dd[ HH:mm]"),
    ("2021-05-06 10:11", "yyyy-MM-dd[ HH:mm]"),
    ("2021-05-06 10:1", "yyyy-MM-dd[ HH:mm]"),
    ("2021-05-06 10", "yyyy-MM-dd[ HH[:mm]]"),
    ("2021-05-06T10", "yyyy-MM-dd'T'HH"),
    ("2021-05-06t10", "yyyy-MM-dd'T'HH"),
    ("   5", "pppp"),
    ("   5", "ppppd"),
    ("  15", "ppppd"),
    ("2021-05-06 2021", "yyyy-MM-dd yyyy"),
    ("2021-05-06 2022", "yyyy-MM-dd yyyy"),
    ("2021 2021", "yyyy uuuu"),
    ("10 2", "H h"),
    ("at noon", "'at' B"),
    ("", "yyyy"),
    ("", "[yyyy]"),
    ("x", "yyyy"),
)
_URIS = (
    *(
        "http://a.b/c?d=e#f",
        "https://user:pw@host:8080/p/q?x=1&y=2",
        "http://h",
        "http://h/",
        "mailto:a@b.c",
        "/p?q",
        "",
    ),
    *("http://h/a%20b?c%20d=%26#e%2Bf", "http://h/a+b?c+d", "http://h/a b", "http://h:port/", "http://[::1]:80/x"),
    *("http://h_x/p", "http://h?q", "http://h#", "http://h?", "http://h/\u00fc?\u00e9", "http://%41", "a:b", "//h/p"),
    *(
        "http://h/p?a=b=c&d",
        "http://h:/p",
        "http://1.2.3.4:5/",
        "file:///etc/x",
        "http://h/<>",
        "http://h/p?q=%zz",
        "http:",
    ),
    *("http://h/%C3%BC", "HTTP://Host/P", "http://h/%80", "urn:isbn:1", "http://h/a^b", "1a://h"),
)
_DOUBLES = (
    *(
        "0",
        "-0.0",
        "1",
        "100",
        "1234567",
        "12345678",
        "9999999",
        "10000000",
        "0.001",
        "0.0001",
        "0.00123",
        "1e21",
        "1e-5",
    ),
    *("1.1", "123456789.125", "1e100", "1.7976931348623157e308", "4.9e-324", "NaN", "Infinity", "-Infinity", "3.0e10"),
    *("0.1", "2e-3", "1.0E7", "-1.5E-7", "1e16", "123456789012345680"),
)
_NUMBERS = (
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "2",
    "10",
    "-3.7",
    "710",
    "-746",
    "1e300",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.5707963",
)
_FUNCTIONS = (
    *(
        "SQRT",
        "CBRT",
        "EXP",
        "LN",
        "SIN",
        "COS",
        "TAN",
        "COT",
        "ASIN",
        "ACOS",
        "ATAN",
        "SINH",
        "COSH",
        "TANH",
        "DEGREES",
    ),
    "RADIANS",
)
_TEXTS = ("straße", "ǅ", "ΟΔΥΣΣΕΥΣ", "İ", "ı", "ﬁx", "a\U00010428b", "\u00a0x ", " \t x\u0001 ", "ÀÉ", "ŉ", "ǰ")
_KEYS = (
    ("a", "b", "c"),
    ("foo", "bar", "baz", "qux"),
    ("key1", "key2", "key10", "x"),
    tuple("zyxwvutsrqponmlkjihgfedcba"),
    ("Aa", "BB", "C#", "AaAa", "BBBB", "AaBB"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    ("\u00fc", "\U00010428", ""),
)


def questions() -> Iterator[Question]:
    """Every question, in the order of the facts' file."""
    for pattern in _FORMATS:
        for at, moment in enumerate(_MOMENTS):
            yield ["format timestamp", moment, pattern, _ZONES[at]]
        yield ["format date", "18763", pattern]
        yield ["format time", "36672005", pattern]
    for text, pattern in _PARSES:
        yield ["parse timestamp", text, pattern, "UTC"]
        yield ["parse timestamp", text, pattern, "America/New_York"]
        yield ["parse time", text, pattern]
        yield ["parse date", text, pattern]
    for each in _URIS:
        yield ["uri", each]
    for each in ("a b", "ü&=+~*-._/", "\U00010428", "", "%", "100%25", "a%2Bb+c", "%zz", "%4", "%C3%BC", "%c3"):
        yield ["url encode", each]
        yield ["url decode", each]
    for each in _DOUBLES:
        yield ["double text", each]
    for name in _FUNCTIONS:
        for number in _NUMBERS:
            yield ["math", name, number, "0"]
    for name in ("ATAN2", "POWER"):
        for x in ("0", "-0.0", "2", "-2", "0.5", "NaN", "Infinity", "1"):
            for y in ("0", "3", "-3", "0.5", "1024", "Infinity", "NaN"):
                yield ["math", name, x, y]
    yield from (["abs int", each] for each in ("-2147483648", "-5", "7"))
    yield from (["abs long", each] for each in ("-9223372036854775808", "-5"))
    for each in (
        "2.5",
        "-2.5",
        "0.49999999999999994",
        "1e19",
        "-1e19",
        "NaN",
        "4503599627370497",
        "-0.5",
        "9007199254740993",
    ):
        yield ["round", each]
    for value in ("1.25", "-1.25", "2.5", "-2.5", "12.34", "0.00", "-0.05"):
        for places in ("0", "1", "-1", "3"):
            yield ["round decimal", value, places]
    for value in ("0.1", "1.005", "123.456", "99999.99", "1e10", "-2.675"):
        for precision, scale in (("4", "2"), ("10", "3"), ("38", "10")):
            yield ["decimal of double", value, precision, scale]
    for each in _TEXTS:
        yield from ([kind, each] for kind in ("upper", "lower", "trim"))
    yield from (["base64", each] for each in ("YQ==", "YQ", "YWI=", "YW Jj", "Y", "YQ=", "-_-_", ""))
    for each in ("5", "+5", "-5", "", " 5", "5 ", "2147483648", "5.0", "\u0665", "0x5", "1_0"):
        yield ["parse int", each]
    for each in ("5", " 5 ", "1e5", ".5", "5.", "NaN", "Infinity", "inf", "1_0", "", "-"):
        yield ["parse double", each]
    for keys in _KEYS:
        for size in ("", "1", str(len(keys))):
            yield ["hash order", size, *keys]

"""Scoring with a model: scikit-learn judges whole Arrow columns of payments, one call per batch of records.

The model is trained here for the sake of the example; an application would load one: joblib.load("model.joblib").
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ottla.streams import StreamsBuilder, vectorised

try:
    from sklearn.linear_model import LogisticRegression
except ImportError:
    raise SystemExit("this example scores with scikit-learn: pip install scikit-learn") from None

PAST = np.array([[10, 0], [25, 0], [40, 1], [60, 0], [900, 1], [1200, 1], [700, 1], [1500, 0]])
model = LogisticRegression(max_iter=1000).fit(PAST / [1000, 1], [0, 0, 0, 0, 1, 1, 1, 1])


@dataclass(frozen=True)
class Payment:
    amount: float
    abroad: bool


@dataclass(frozen=True)
class Scored:
    amount: float
    risk: float


@vectorised
def score(payments: pa.StructArray) -> pa.StructArray:
    """Return each payment with the probability that it is fraud."""
    amounts, abroad = payments.field("amount"), payments.field("abroad")
    features = np.column_stack([amounts.to_numpy(zero_copy_only=False) / 1000, np.asarray(abroad, dtype=float)])
    risks = pa.array(model.predict_proba(features)[:, 1])
    return pa.StructArray.from_arrays([amounts, risks], ["amount", "risk"])


builder = StreamsBuilder(default_key_serde="string")
scored = builder.stream("payments", value_serde=Payment).map_values(score, value_serde=Scored)
scored.to("scored-payments")
scored.filter("value.risk > 0.5").to("suspicious-payments")

"""A Protobuf message class, made without a compiler."""

from __future__ import annotations

from typing import Any

__all__ = ["greeting_class"]


def greeting_class() -> Any:
    """Return the class of `message Greeting { string words = 1; int32 times = 2; }`."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    name = "greeting.proto"
    pool = descriptor_pool.Default()
    try:
        found = pool.FindFileByName(name)
    except KeyError:
        file = descriptor_pb2.FileDescriptorProto(name=name, package="ottla", syntax="proto3")
        message = file.message_type.add(name="Greeting")
        kinds = descriptor_pb2.FieldDescriptorProto
        message.field.add(name="words", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL, json_name="words")
        message.field.add(name="times", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL, json_name="times")
        pool.Add(file)
        found = pool.FindFileByName(name)
    return message_factory.GetMessageClass(found.message_types_by_name["Greeting"])

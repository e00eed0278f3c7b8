"""Message classes of the wire, made at run time from the descriptors of proto/jacserve/v1.

In: jacserve_v1.binpb, written by `client/python/make_descriptors.py`. Out: one class per message, and enums by name.
Generated code would tie the package to one version of protobuf; descriptors work with all of them.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "jacserve.v1"
SERVICE = f"/{PACKAGE}.JacobianService/"
DESCRIPTORS = "jacserve_v1.binpb"


def _load_pool() -> Any:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(resources.files(__package__).joinpath(DESCRIPTORS).read_bytes())
    pool = descriptor_pool.DescriptorPool()  # of its own: another library may know other versions of these files
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _load_pool()


def _message(name: str) -> Any:
    descriptor = _POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(_POOL)
    return factory.GetPrototype(descriptor)  # protobuf before 4.22


def enum_number(enum: str, name: str) -> int:
    """The number of one value, such as ("Precision", "PRECISION_FP32")."""
    return int(_POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}").values_by_name[name].number)


JacobianSpec = _message("JacobianSpec")
JacobianEvent = _message("JacobianEvent")
ComputeJacobianRequest = _message("ComputeJacobianRequest")
FindMissingRequest = _message("FindMissingRequest")
FindMissingResponse = _message("FindMissingResponse")
UploadRequest = _message("UploadRequest")
UploadResponse = _message("UploadResponse")
DescribeModelRequest = _message("DescribeModelRequest")
ModelDescription = _message("ModelDescription")
ListWorkersRequest = _message("ListWorkersRequest")
ListWorkersResponse = _message("ListWorkersResponse")
GetServerInfoRequest = _message("GetServerInfoRequest")
GetServerInfoResponse = _message("GetServerInfoResponse")

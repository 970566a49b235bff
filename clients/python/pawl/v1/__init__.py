"""The messages of the wire contract, made from proto/pawl/v1/pawl.proto by clients/update-contract."""

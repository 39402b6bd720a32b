"""The OpenAPI document of the public listener, made from the tables of routes, operations, parameters and types."""

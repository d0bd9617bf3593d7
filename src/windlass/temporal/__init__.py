"""What worker and façade share of Temporal: client, converter, codec, search attributes."""

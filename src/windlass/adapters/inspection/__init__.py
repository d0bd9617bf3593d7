"""The inspect endpoint as seen from the network: certificates, addresses, server, client, and who asks."""

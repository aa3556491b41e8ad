"""One round: shards, batches, trainer, client, server, evaluation, ledger, the clients' memory."""

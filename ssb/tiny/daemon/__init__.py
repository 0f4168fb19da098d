"""tinySSB as a user's programs: a chat, directly or through a provider, and the provider."""

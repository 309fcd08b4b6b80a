package grpo

// validateServer reports bad settings of a rollout server.
func (c Config) validateServer(bad func(key, format string, args ...any)) {}

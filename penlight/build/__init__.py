"""Building the runtime: generated sources now; targets, toolchains and selective libraries later."""

/* header.c - what a header says of a run: the model, the generation, memory and machine. */
#include "cli/cli.h"

void cli_say_shape(cli_sink to, const mt_config *c) {
    cli_say_number(to, "layers", c->layers);
    cli_say_number(to, "heads", c->heads);
    cli_say_number(to, "width", c->width);
}

static void say_prompt(cli_sink to, const cli_session *s) {
    const cli_options *o = &s->o;
    const char *kind = o->prompt        ? "text"
                       : o->prompt_file ? "file"
                       : o->prompt_ids  ? "ids"
                                        : "seeded";
    cli_say(to, MT_VALUE_TEXT, "prompt", "%s, %u tokens", kind, s->P);
}

static void say_model(cli_sink to, const cli_session *s) {
    const mt_config *c = &s->config;
    cli_say_path(to, "model", s->o.model);
    cli_say(to, MT_VALUE_TEXT, "weights_source", "%s%s", mt_checkpoint_source(s->checkpoint),
            s->device->computes ? "" : " (not read: a dry run)");
    cli_say_shape(to, c);
    cli_say_number(to, "vocab", c->vocab);
    cli_say_number(to, "positions", c->positions);
    cli_say(to, MT_VALUE_TEXT, "head", "%s", c->tied ? "tied" : "untied");
    cli_say(to, MT_VALUE_TEXT, "dtype", "%s", mt_dtype_name(c->dtype));
    cli_say_number(to, "parameters", mt_config_parameters(c));
}

static void say_generation(cli_sink to, const cli_session *s) {
    cli_say_number(to, "ctx", s->ctx);
    say_prompt(to, s);
    cli_say_number(to, "batch", s->batch);
    cli_say_number(to, "seed", s->o.seed);
    cli_say(to, MT_VALUE_TEXT, "logits", "%s", s->o.logits_all ? "all" : "last");
    cli_say(to, MT_VALUE_TEXT, "kv", "%s", s->o.kv);
    cli_say(to, MT_VALUE_TEXT, "activations", "%s", s->o.arena ? "arena" : "eager");
}

void cli_say_session(cli_sink to, const cli_session *s, const char *command) {
    cli_say_command(to, command);
    say_model(to, s);
    say_generation(to, s);
    cli_say(to, MT_VALUE_TEXT, "policy", "%s", mt_alloc_policy(s->alloc));
    cli_say_number(to, "workspace", s->workspace);
    cli_say(to, MT_VALUE_TEXT, "backend", "%s", s->device->name);
    cli_say(to, MT_VALUE_TEXT, "device", "%s", s->device->description);
    cli_say(to, MT_VALUE_TEXT, "source", "%s", s->source->name);
    cli_say_number(to, "capacity", s->capacity);
    cli_say(to, MT_VALUE_SWITCH, "graph", "%s", s->o.graph ? "on" : "off");
    cli_library_header(s, to);
    cli_say(to, MT_VALUE_TEXT, "units", "bytes, ms");
}

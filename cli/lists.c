/* lists.c - what the help says of policies and cache strategies, from their own tables. */
#include "cli/cli.h"

static void item(FILE *out, const char *syntax, const char *help) {
    fprintf(out, "  %s\n      %s\n", syntax, help);
}

void cli_list_policies(FILE *out) {
    const mt_policy_traits *p;
    fputs("Policies (--policy):\n", out);
    for (size_t i = 0; (p = mt_policy_nth(i)) != NULL; i++)
        item(out, p->syntax, p->help);
}

static void list_strategies(FILE *out) {
    static const struct {
        const char *syntax, *help;
    } strategies[] = {
        { "concat", "new K and V of the whole context per layer and step, as torch.cat does" },
        { "concat-tuple", "the same; all old tensors are freed at the end of the step" },
        { "static", "K and V of --ctx tokens per layer, once" },
        { "doubling[:N]", "one K and one V for all layers, of N tokens, doubled when full" },
        { "paged:N", "a page of N tokens per layer and sequence, whenever one is full" },
        { "none", "no cache: each step computes the whole context again" },
    };
    fputs("\nKV cache strategies (--kv):\n", out);
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        item(out, strategies[i].syntax, strategies[i].help);
}

void cli_list_memory(FILE *out) {
    cli_list_policies(out);
    list_strategies(out);
}

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
    const mt_kv_traits *kv;
    fputs("\nKV cache strategies (--kv):\n", out);
    for (size_t i = 0; (kv = mt_kv_nth(i)) != NULL; i++)
        item(out, kv->syntax, kv->help);
}

void cli_list_memory(FILE *out) {
    cli_list_policies(out);
    list_strategies(out);
}

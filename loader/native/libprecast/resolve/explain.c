/* A decision as text: the request, the chosen candidate, why each other one was refused, and how to build a missing
 * one. */
#include "resolve.h"

static void put_row(struct builder *builder, const struct precast_caches *caches, const struct candidate *candidate,
                    const char *verdict, const char *why) {
  const struct artifact *artifact = &candidate->artifact;
  struct text target = artifact->target_name, cache = caches->caches[candidate->cache].index->name;
  put(builder, "  %-7s  %-8.*s  %s  %.12s  %.*s  ", verdict, (int)target.size, target.data,
      artifact->object ? "object" : "cubin ", artifact->key.data, (int)cache.size, cache.data);
  put_config(builder, artifact->config);
  put(builder, why && *why ? "  %s\n" : "\n", why);
}

static void put_advice(struct builder *builder, const struct resolution *resolution) {
  const struct request *request = resolution->request;
  if (resolution->rejected_count) {
    const struct artifact *nearest = &resolution->rejected[0].artifact;
    put(builder, "nearest: ");
    put_config(builder, nearest->config);
    put(builder, " for %.*s\n", (int)nearest->target_name.size, nearest->target_name.data);
  }
  put(builder,
      "to build it, put this in the manifest of the cache, run 'precast build', and install the cache:\n  kernels:\n");
  put(builder, "    - kernel: %.*s\n      config: ", (int)request->op.size, request->op.data);
  put_config(builder, request->config);
  if (request->target) put(builder, "\n      targets: [%s]", request->target);
  put(builder, "\n");
}

void put_resolution(struct builder *builder, const struct precast_caches *caches, const struct resolution *resolution,
                    size_t most) {
  const struct request *request = resolution->request;
  size_t count = resolution->accepted_count + resolution->rejected_count;
  put_text(builder, request->op);
  put(builder, " ");
  put_config(builder, request->config);
  put(builder, " ");
  put_machine(builder, &resolution->machine);
  static const char *const only[] = {
      [ANY] = "", [ON_GPU] = ", verified only", [EMULATED] = ", verified or emulated only"};
  put(builder, "%s\n", only[request->verified]);
  for (size_t i = 0; i < count && i < most; ++i) {
    bool fits = i < resolution->accepted_count;
    const struct candidate *one =
        fits ? &resolution->accepted[i] : &resolution->rejected[i - resolution->accepted_count];
    const char *measured = i == 0 && fits ? resolution->measured : NULL;
    put_row(builder, caches, one, !fits ? "refused" : i ? "fits" : "taken", measured ? measured : one->why);
  }
  if (count > most) put(builder, "  and %zu more, which precast_explain shows\n", count - most);
  if (!count) put(builder, "  no candidate\n");
  if (resolution->unjudged) put(builder, "  and %zu more, which differ more\n", resolution->unjudged);
  put_text(builder, (struct text){resolution->notes.data, resolution->notes.size});
  if (!resolution->accepted_count) put_advice(builder, resolution);
}

// The persistent kernel: each work group is a worker, and all of them go through the same commands.
//
// A worker claims units of a command until there are no more, then waits for those that other workers have claimed.
// So it only waits for workers that run: also where work groups run one after another, all of them end.
// `begin` is the first word of the first command. `counters` has FAULT_WORDS of `report_index`, then two numbers for
// each command, claimed and done, and one more, the workers that have left; the numbers are 0 between runs.
// The hint keeps Intel's driver from trying to join work items to vectors: a build takes a third of the time.
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(float8))) void run_commands(
    const __global uint* commands, const uint begin, const uint num_commands,
    volatile __global atomic_uint* counters, REGION_ARGUMENTS) {
  Core core = {{REGION_NAMES}, get_num_groups(0), 0, 0, counters};
  counters += FAULT_WORDS;
  core.scratch = (__global float*)core.regions[REGIONS - 1] + get_group_id(0) * SCRATCH;
  const __global uint* command = commands + begin;
  for (uint i = 0; i < num_commands; ++i, command += command[1]) {
    core.command = (uint)(command - commands);
    const uint units = count_units(&core, command);
    if (core.num_workers == 1) {
      for (uint unit = 0; unit < units; ++unit) run_unit(&core, command, unit);
      continue;
    }
    volatile __global atomic_uint* const claimed = counters + 2 * i;
    volatile __global atomic_uint* const done = claimed + 1;
    uint count = 0;
    for (uint unit; (unit = ADD(claimed, 1)) < units; ++count) run_unit(&core, command, unit);
    if (count) ADD(done, count);
    while (READ(done) < units) {
    }
  }
  if (core.num_workers > 1 && ADD(counters + 2 * num_commands, 1) == core.num_workers - 1)
    for (uint i = 0; i <= 2 * num_commands; ++i) CLEAR(counters + i);
}

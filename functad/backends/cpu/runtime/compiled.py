"""The compiled part of the runtime: running a tape, the pool of threads, and how a call is stopped.

Written in the language of `compile.integer_compiler`, which reads this text; nothing here runs as Python. It must not
know what the instructions compute, nor who builds tapes. All parameters are 64-bit words: integers or addresses.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("call", "enter", "run_tape", "poll", "call_python", "helper", "stop", "finish", "spin")
# A Python object begins with a head, whose last word is its type. A list goes on with its length and the address of its
# items, an array with the address of its data; `runtime` verifies that before it uses `call`.
HEAD = object.__basicsize__ // 8
ARRAY_FLAGS = HEAD + 6
USABLE = 0x0101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
CLAIM_MASK = w.CLAIM_SIZE - 1
EPOCH_MASK = w.CLAIM_SIZE * w.CLAIM_SIZE - 1


def call(frame, arrays) -> int:
    """What a bound tape does when Python calls it: a C function `PyObject* call(self, PyObject* list)`.

    `frame` is the ndarray that a built-in function has as self, `arrays` a list of ndarrays.
    """
    words = frame[HEAD]
    tape = words[w.FRAME_TAPE]
    slots = words[w.FRAME_SLOTS]
    pool = tape[w.TAPE_POOL]
    status = take_arrays(pool, slots, words[w.FRAME_ARRAYS], arrays)
    if status == 0:
        status = enter(tape, slots)
    if status == w.RAISED:
        return 0
    return new_object(pool[w.TO_PYTHON], status)


def enter(tape, slots) -> int:
    """`run_tape`, and let other Python threads run meanwhile if that is worth it."""
    pool = tape[w.TAPE_POOL]
    status = 0
    if tape[w.TAPE_RELEASE] == 1:
        state = get_word(pool[w.SAVE_THREAD])
        status = run_tape(tape, slots)
        call_word(pool[w.RESTORE_THREAD], state)
    else:
        status = run_tape(tape, slots)
    return status


def take_arrays(pool, slots, count, arrays) -> int:
    """Write the addresses of the arrays' data to the first slots; 0, or what is wrong."""
    if arrays[HEAD] != count:
        return w.WRONG_COUNT
    items = arrays[HEAD + 1]
    array_type = pool[w.ARRAY_TYPE]
    for i in range(count):
        array = items[i]
        if array[HEAD - 1] != array_type:
            return i + 1
        if flags(array + 8 * ARRAY_FLAGS) & USABLE != USABLE:
            return i + 1
        slots[i] = array[HEAD]
    return 0


def run_tape(tape, slots) -> int:
    """Run all entries one after the other; 0, or HELPERS_MISSING if it was done with fewer threads than wanted."""
    pool = tape[w.TAPE_POOL]
    status = 0
    owner = 0
    token = room(w.CANCELLATION_SIZE)
    fill_token(token, pool)
    if tape[w.TAPE_CANCELLATION] >= 0:
        slots[tape[w.TAPE_CANCELLATION]] = token
    if tape[w.TAPE_PARALLEL] == 1:
        if load(pool, w.HELPERS) < load(pool, w.WANTED):
            status = w.HELPERS_MISSING
        owner = claim_helpers(pool)
    if tape[w.TAPE_BLAS] == 1:
        enter_blas(pool)
    position = w.TAPE_HEAD
    end = tape[w.TAPE_END]
    worked = 0
    while position < end:
        entry = tape + 8 * position
        if entry[0] == w.BLOCK:
            worked += run_block(pool, owner, entry, slots, token)
            position += w.BLOCK_HEAD + w.INSTRUCTION_SIZE * entry[w.BLOCK_INSTRUCTIONS]
        elif entry[0] == w.MOVES:
            run_moves(entry, slots)
            position += w.MOVES_HEAD + w.MOVE_SIZE * entry[w.MOVES_COUNT]
        elif entry[0] == w.REPEAT:
            position += repeat_block(pool, owner, entry, slots, token)
        elif entry[0] == w.GROW:
            if grow(pool, entry, slots) == 0:
                status = w.OUT_OF_MEMORY
                position = end
            else:
                position += w.GROW_HEAD + w.GROW_SIZE * entry[w.GROW_STACKS]
        else:
            position = next_position(entry, slots, position)
            worked += machine_model.JUMP_WORK
        worked = counted(token, worked)
        if load(token, w.CANCELLATION_STOPPED) == 1:
            position = end
    if tape[w.TAPE_BLAS] == 1:
        leave_blas(pool)
    if owner == 1:
        store(pool, w.OWNER, 0)
    if load(token, w.CANCELLATION_STOPPED) == 1:
        status = why_stopped(pool)
    return status


def claim_helpers(pool) -> int:
    """Become the one whom the helpers work for: 1, or 0 if there are none, or another call has them."""
    if load(pool, w.HELPERS) > 0 and load(pool, w.OWNER) == 0:
        return claim(pool, w.OWNER, 0, 1)
    return 0


def fill_token(token, pool) -> None:
    """Let a token be that of a call which nobody has stopped."""
    token[w.CANCELLATION_POLL] = pool[w.POLL]
    token[w.CANCELLATION_POOL] = pool
    token[w.CANCELLATION_STOPPED] = 0
    token[w.CANCELLATION_DUE] = 0


def why_stopped(pool) -> int:
    """RAISED, or ENDED in another thread than the main one while the process ends."""
    if load(pool, w.ENDING) == 1 and get_word(pool[w.THREAD]) != pool[w.MAIN_THREAD]:
        return w.ENDED
    return w.RAISED


def poll(token) -> int:
    """Whether the call shall stop. From time to time the main thread lets Python run the handlers of signals.

    If one of them raises (Ctrl-C does), the exception stays set in the thread's Python state until the call returns.
    """
    if load(token, w.CANCELLATION_STOPPED) == 1:
        return 1
    pool = token[w.CANCELLATION_POOL]
    now = time(pool)
    if now >= token[w.CANCELLATION_DUE]:
        if get_word(pool[w.THREAD]) == pool[w.MAIN_THREAD]:
            if token[w.CANCELLATION_DUE] > 0:
                state = get_int(pool[w.ENSURE])
                if get_int(pool[w.CHECK_SIGNALS]) != 0:
                    store(token, w.CANCELLATION_STOPPED, 1)
                call_int(pool[w.RELEASE_STATE], state)
                now = time(pool)
            token[w.CANCELLATION_DUE] = now + machine_model.POLL_INTERVAL_NS
        elif load(pool, w.ENDING) == 1:
            store(token, w.CANCELLATION_STOPPED, 1)
    return load(token, w.CANCELLATION_STOPPED)


def counted(token, worked) -> int:
    """Work done since the last question; asks if that is much. A question costs as much as a small kernel."""
    if worked > machine_model.POLL_WORK:
        poll(token)
        return 0
    return worked


def time(pool) -> int:
    """Now, in ns."""
    if pool[w.CLOCK_NUMBER] < 0:
        return 1000000 * get_word(pool[w.CLOCK])
    moment = room(2)
    get_time(pool[w.CLOCK], pool[w.CLOCK_NUMBER], moment)
    return 1000000000 * moment[0] + moment[1]


def call_python(slots, params, start, stop) -> None:
    """The kernel of a call of a Python function: function(address of the slots). If it raises, the tape stops."""
    token = slots[params[w.CALL_CANCELLATION]]
    pool = token[w.CANCELLATION_POOL]
    state = get_int(pool[w.ENSURE])
    result = 0
    arguments = new_object(pool[w.NEW_TUPLE], 1)
    if arguments != 0:
        address = new_object(pool[w.TO_PYTHON], slots)
        if address != 0:
            set_item(pool[w.SET_ITEM], arguments, 0, address)
            result = call_object(pool[w.CALL], params[w.CALL_FUNCTION], arguments, 0)
        call_word(pool[w.DECREF], arguments)
    if result != 0:
        call_word(pool[w.DECREF], result)
    else:
        store(token, w.CANCELLATION_STOPPED, 1)
    call_int(pool[w.RELEASE_STATE], state)


def run_block(pool, owner, block, slots, token) -> int:
    """Run a block, together with the helpers if the caller owns the pool; how much work that was."""
    chunks = block[w.BLOCK_CHUNKS]
    if chunks == 1:
        run_chunk(block, slots, 0, token)
    elif owner == 1:
        run_job(pool, block, slots, chunks, token)
    else:
        chunk = 0
        worked = 0
        while chunk < chunks and load(token, w.CANCELLATION_STOPPED) == 0:
            run_chunk(block, slots, chunk, token)
            chunk += 1
            worked = counted(token, worked + block[w.BLOCK_WORK])
    return chunks * block[w.BLOCK_WORK]


def run_moves(entry, slots) -> None:
    """Set pointers, and counters."""
    move = entry + 8 * w.MOVES_HEAD
    for _ in range(entry[w.MOVES_COUNT]):
        slots[move[w.MOVE_TARGET]] = slots[move[w.MOVE_SOURCE]] + move[w.MOVE_OFFSET]
        move += 8 * w.MOVE_SIZE


def grow(pool, entry, slots) -> int:
    """Make room for the slices of one more step, and point to them; 1, or 0 if there is no memory."""
    count = slots[entry[w.GROW_COUNT]]
    extra = entry[w.GROW_EXTRA]
    room = slots[entry[w.GROW_CAPACITY]]
    wanted = room
    if count + extra > room:
        wanted = max(count + extra, max(2 * room, 16))
    stack = entry + 8 * w.GROW_HEAD
    for _ in range(entry[w.GROW_STACKS]):
        stride = stack[w.GROW_STRIDE]
        if wanted > room:
            memory = get_memory(pool[w.REALLOC], slots[stack[w.GROW_MEMORY]], wanted * stride)
            if memory == 0:
                return 0
            slots[stack[w.GROW_MEMORY]] = memory
        slots[stack[w.GROW_POINTER]] = slots[stack[w.GROW_MEMORY]] + extra * count * stride
        stack += 8 * w.GROW_SIZE
    slots[entry[w.GROW_CAPACITY]] = wanted
    return 1


def next_position(entry, slots, position) -> int:
    """Where the tape goes on after a jump or a switch."""
    kind = entry[0]
    if kind == w.JUMP:
        return entry[w.JUMP_TARGET]
    if kind == w.SWITCH:
        last = entry[w.SWITCH_COUNT] - 1
        chosen = min(max(flags(slots[entry[w.SWITCH_SLOT]]), 0), last)
        return entry[w.SWITCH_HEAD + chosen]
    slot = entry[w.JUMP_SLOT]
    jumps = 0
    if kind == w.AGAIN:
        slots[slot] -= 1
        jumps = 1 if slots[slot] != 0 else 0
    elif kind == w.UNLESS:
        jumps = 1 if byte(slots[slot]) == 0 else 0
    else:
        jumps = 1 if slots[slot] == slots[entry[w.JUMP_OTHER]] else 0
    return entry[w.JUMP_TARGET] if jumps == 1 else position + w.JUMP_SIZE


def repeat_block(pool, owner, block, slots, token) -> int:
    """Run a block that repeats, and leave the slots as its first chunk leaves them; how many words it has."""
    run_block(pool, owner, block, slots, token)
    size = w.BLOCK_HEAD + w.INSTRUCTION_SIZE * block[w.BLOCK_INSTRUCTIONS]
    repeat = block + 8 * size
    copy_words(slots, slots + 8 * repeat[w.REPEAT_PRIVATE], repeat[w.REPEAT_COUNT])
    return size + w.REPEAT_SIZE + w.MOVES_HEAD + w.MOVE_SIZE * repeat[w.REPEAT_SIZE + w.MOVES_COUNT]


def run_chunk(block, slots, chunk, token) -> None:
    """Run all instructions of the block over one chunk of its rows, once or as often as it repeats."""
    if block[0] == w.BLOCK:
        run_rows(block, slots, chunk, block[w.BLOCK_INSTRUCTIONS], token)
        return
    repeat = block + 8 * (w.BLOCK_HEAD + w.INSTRUCTION_SIZE * block[w.BLOCK_INSTRUCTIONS])
    words = repeat[w.REPEAT_COUNT]
    own = slots + 8 * (repeat[w.REPEAT_PRIVATE] + chunk * words)
    copy_words(own, slots, words)
    worked = 0
    left = repeat[w.REPEAT_STEPS]
    while left > 0:
        count = repeat[w.REPEAT_LAST] if left == 1 else block[w.BLOCK_INSTRUCTIONS]
        run_rows(block, own, chunk, count, token)
        run_moves(repeat + 8 * w.REPEAT_SIZE, own)
        left -= 1
        worked = counted(token, worked + block[w.BLOCK_WORK])
        if load(token, w.CANCELLATION_STOPPED) == 1:
            left = 0


def run_rows(block, slots, chunk, count, token) -> None:
    """Run the first `count` instructions of the block over one chunk of its rows."""
    size = block[w.BLOCK_CHUNK]
    start = chunk * size
    stop = min(start + size, block[w.BLOCK_ROWS])
    position = w.BLOCK_HEAD
    for _ in range(count):
        scale = block[position + w.INSTRUCTION_SCALE]
        params = block[position + w.INSTRUCTION_PARAMS]
        address = block[position + w.INSTRUCTION_ADDRESS]
        piece = block[position + w.INSTRUCTION_PIECE]
        first = start * scale
        last = stop * scale
        if last - first <= piece:
            call_kernel(address, slots, params, first, last)
        else:
            while first < last and poll(token) == 0:
                call_kernel(address, slots, params, first, min(first + piece, last))
                first += piece
        position += w.INSTRUCTION_SIZE


def copy_words(target, source, count) -> None:
    for i in range(count):
        target[i] = source[i]


def run_job(pool, block, slots, chunks, token) -> None:
    """Run the block together with the helpers; the caller must own the pool."""
    # Nobody can claim from the previous job any more, so its description may be replaced.
    store(pool, w.DONE, 0)
    store(pool, w.JOB_BLOCK, block)
    store(pool, w.JOB_SLOTS, slots)
    store(pool, w.JOB_CANCELLATION, token)
    publish(pool, w.CLAIM, (load(pool, w.CLAIM) | EPOCH_MASK) + 1 + chunks)
    if load(pool, w.SLEEPERS) > 0:
        wake(pool, chunks - 1, load(pool, w.HELPERS))
    work(pool, w.CLAIM_SIZE - 1)
    spins = 0
    while load(pool, w.DONE) != chunks:
        pause()
        spins += 1
        if spins > pool[w.PATIENCE]:
            call_nothing(pool[w.YIELD])
            poll(token)


def work(pool, step) -> int:
    """Claim and run chunks of the current job until all are claimed; how many this thread did.

    step: what a claim adds to the word: `CLAIM_SIZE - 1` takes the first chunk that is left, `-1` the last one. Owner
    and helpers come from both ends, so that job after job most rows lie in the caches of the core that has them again.
    """
    done = 0
    worked = 0
    word = load(pool, w.CLAIM)
    while word & CLAIM_MASK != 0:
        # A claim that succeeds proves that these belong to the word's epoch: the job cannot end before the chunk.
        block = load(pool, w.JOB_BLOCK)
        slots = load(pool, w.JOB_SLOTS)
        token = load(pool, w.JOB_CANCELLATION)
        if claim(pool, w.CLAIM, word, word + step) == 1:
            if load(token, w.CANCELLATION_STOPPED) == 0:
                chunk = (word & EPOCH_MASK) // w.CLAIM_SIZE
                if step < 0:
                    chunk += (word & CLAIM_MASK) - 1
                run_chunk(block, slots, chunk, token)
                worked = counted(token, worked + block[w.BLOCK_WORK])
            done += 1
        word = load(pool, w.CLAIM)
    if done > 0:
        add(pool, w.DONE, done)
    return done


def helper(pool, own) -> None:
    """The life of a helper thread: look for work, sleep after a while without, until it is told to stop."""
    add(pool, w.LIVING, 1)
    spins = 0
    while load(pool, w.STOP) == 0:
        if work(pool, -1) > 0:
            spins = 0
        pause()
        spins += 1
        if spins > pool[w.PATIENCE] and spins & 31 == 0:
            # The caller may be waiting for this core: without this a busy machine takes twice as long.
            call_nothing(pool[w.YIELD])
        if spins > pool[w.SPINS]:
            sleep(pool, own)
            spins = 0
    add(pool, w.LIVING, -1)


def sleep(pool, own) -> None:
    """Wait for the helper's lock, which whoever clears the flag `own[0]` must release."""
    add(pool, w.SLEEPERS, 1)
    publish(own, 0, 1)
    # Either this thread sees the work published meanwhile, or the one who published it sees the flag.
    if load(pool, w.CLAIM) & CLAIM_MASK != 0 or load(pool, w.STOP) == 1:
        if claim(own, 0, 1, 0) == 1:
            add(pool, w.SLEEPERS, -1)
            return
    acquire_lock(pool[w.ACQUIRE], own[1], 1)


def wake(pool, count, places) -> None:
    """Wake at most `count` helpers that sleep, at so many places for helpers."""
    for i in range(places):
        own = pool + 8 * (w.POOL_HELPER + i * w.HELPER_SIZE)
        if count > 0 and load(own, 0) == 1:
            if claim(own, 0, 1, 0) == 1:
                add(pool, w.SLEEPERS, -1)
                call_word(pool[w.RELEASE], own[1])
                count -= 1


def stop(pool) -> None:
    """Tell all helpers to leave, also one whose start was interrupted."""
    publish(pool, w.STOP, 1)
    wake(pool, w.MAX_THREADS, w.MAX_THREADS)


def finish(pool) -> None:
    """End all work but that of the main thread, at exit; wait until the helpers have left compiled code."""
    publish(pool, w.ENDING, 1)
    stop(pool)
    while load(pool, w.LIVING) > 0:
        call_nothing(pool[w.YIELD])


def enter_blas(pool) -> None:
    """Give the BLAS library one thread as long as any tape runs: its threads and the helpers would fight."""
    if pool[w.BLAS_SET] != 0:
        while claim(pool, w.BLAS_LOCK, 0, 1) == 0:
            pause()
        if pool[w.BLAS_CALLERS] == 0:
            pool[w.BLAS_SAVED] = get_int(pool[w.BLAS_GET])
            if pool[w.BLAS_SAVED] != 1:
                call_int(pool[w.BLAS_SET], 1)
        pool[w.BLAS_CALLERS] += 1
        store(pool, w.BLAS_LOCK, 0)


def leave_blas(pool) -> None:
    if pool[w.BLAS_SET] != 0:
        while claim(pool, w.BLAS_LOCK, 0, 1) == 0:
            pause()
        pool[w.BLAS_CALLERS] -= 1
        if pool[w.BLAS_CALLERS] == 0 and pool[w.BLAS_SAVED] != 1:
            call_int(pool[w.BLAS_SET], pool[w.BLAS_SAVED])
        store(pool, w.BLAS_LOCK, 0)


def spin(count) -> None:
    """Look for nothing `count` times: what Python measures to turn microseconds into spins."""
    for _ in range(count):
        pause()

"""Scaffnew's relatives, whose clients draw coins, batches or kept numbers of their own in local steps."""

from tests.references.compressed import ALL, rand_k, zeros
from tests.references.tiny import CLIENTS, START


def gradskip(p, log, cohorts, lr, probability, going, local_steps, coins):
    """GradSkip; `coins` are those of each client's steps, up to the first that shows 0."""
    x, h = START, zeros()
    log.start({"x": x}, [{"h_i": own} for own in h])
    for cohort, count, shown in zip(cohorts, local_steps, coins, strict=True):
        z, g, replies = [START for _ in CLIENTS], [*h], []
        for i in cohort:
            goes = shown[str(i)]
            z[i] = p.steps(i, x, lr, sum(goes), lambda y, i=i, h=h: p.grad(i, y) - h[i])
            if len(goes) > sum(goes):
                g[i] = p.grad(i, z[i])
            replies.append(z[i] - lr / probability * (g[i] - h[i]))
        log.exchange(cohort, {"x": x, "steps": count}, [{"moved_z_i": reply} for reply in replies])
        x = p.total(cohort, replies)
        h = [slope + probability / lr * (x - end) for slope, end in zip(g, z, strict=True)]
        log.end(cohort, {"x": x}, [{"h_i": own} for own in h], local_steps=count, coins=shown)


def gradskip_plus(p, log, cohorts, lr, probability, kept, own_kept, local_steps, places, own_places):
    """GradSkip+ with rand-k: the places of the round are those of all clients, and each step of a client has its own."""
    omega, own_omega = 3 / kept - 1, 3 / own_kept - 1
    s = probability / (1 + omega)
    x, points, h = START, [START for _ in CLIENTS], zeros()
    log.start({"x": x}, [{"x_i": own, "h_i": held} for own, held in zip(points, h, strict=True)])
    for cohort, count, drawn, own in zip(cohorts, local_steps, places, own_places, strict=True):
        points, h, replies = [*points], [*h], []
        for i in cohort:
            for k in range(count):
                slope = p.grad(i, points[i])
                change = rand_k(slope - h[i], own[str(i)][k]) / (1 + own_omega)
                points[i], h[i] = points[i] - lr * change, slope - change
            replies.append(rand_k(points[i] - lr / s * h[i], drawn))
        log.exchange(cohort, {"steps": count}, [{"compressed_point": reply} for reply in replies])
        mean = p.total(cohort, replies)
        x = x - (rand_k(x, drawn) - mean) / (1 + omega)
        for i in cohort:
            away = (rand_k(points[i], drawn) - mean) / (1 + omega)
            points[i], h[i] = points[i] - away, h[i] - s / lr * away
        states = [{"x_i": own, "h_i": held} for own, held in zip(points, h, strict=True)]
        log.end(cohort, {"x": x}, states, local_steps=count, places=drawn, own_places=own)


def proxskip_vr(p, log, cohorts, lr, probability, batch, refresh, local_steps, batches, moves):
    """ProxSkip-VR with L-SVRG; a batch may have a row twice."""
    x, h, w = START, zeros(), [START for _ in CLIENTS]
    log.start({"x": x}, [{"h_i": own, "w_i": anchor} for own, anchor in zip(h, w, strict=True)])
    for cohort, count, rows, moved in zip(cohorts, local_steps, batches, moves, strict=True):
        ends, w = [], [*w]
        for i in cohort:
            z = x
            for k in range(count):
                own = rows[str(i)][k]
                g = p.grad(i, z, own) - p.grad(i, w[i], own) + p.grad(i, w[i])
                w[i] = z if moved[str(i)][k] else w[i]
                z = z - lr * (g - h[i])
            ends.append(z)
        log.exchange(cohort, {"x": x, "steps": count}, [{"z_i": end} for end in ends])
        x = p.total(ALL, ends)
        h = [own + probability / lr * (x - end) for own, end in zip(h, ends, strict=True)]
        states = [{"h_i": own, "w_i": anchor} for own, anchor in zip(h, w, strict=True)]
        log.end(cohort, {"x": x}, states, local_steps=count, batches=rows, moved=moved)

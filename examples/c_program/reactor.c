/* A cooled stirred-tank reactor with an exothermic reaction, as a program that reads commands and writes states.
 *
 *   reset SEED        begin near the unstable operating point (half converted, 350 K)
 *   step COOLANT      advance by 1.8 seconds with a coolant of this temperature, in K
 *
 * Each answer is a line "concentration temperature", in mol/L and K.
 *
 * It is as robust as research codes are. Where the reaction runs away, the solver of the implicit step may not converge,
 * and loops for ever; above 600 K the program aborts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double FLOW = 1.0;          /* feed, tank volumes a minute */
static const double FEED = 1.0;          /* concentration in the feed, mol/L */
static const double FEED_HEAT = 356.0;   /* temperature of the feed, K */
static const double RATE = 7.2e10;       /* frequency factor, 1/min */
static const double ACTIVATION = 8750.0; /* activation energy over the gas constant, K */
static const double HEAT = 209.2;        /* heat of reaction over heat capacity, K L/mol */
static const double COOLING = 3.5;       /* heat exchange over heat capacity, 1/min */
static const double STEP = 0.03;         /* minutes */

static double concentration, temperature;

static void advance(double coolant)
{
    double c = concentration, t = temperature, change;
    do { /* fixed-point iteration of the implicit Euler step */
        double reaction = RATE * exp(-ACTIVATION / t) * c;
        double new_c = concentration + STEP * (FLOW * (FEED - c) - reaction);
        double new_t = temperature + STEP * (FLOW * (FEED_HEAT - t) + HEAT * reaction + COOLING * (coolant - t));
        change = fabs(new_c - c) + fabs(new_t - t);
        c = new_c;
        t = new_t;
        if (!(t < 600.0)) {
            fprintf(stderr, "reactor: %g K: meltdown\n", t);
            abort();
        }
    } while (change > 1e-6);
    concentration = c;
    temperature = t;
}

int main(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        unsigned seed;
        double coolant;
        if (sscanf(line, "reset %u", &seed) == 1) {
            srand(seed);
            concentration = 0.5 + 0.1 * (rand() / (double)RAND_MAX - 0.5);
            temperature = 350.0 + 4.0 * (rand() / (double)RAND_MAX - 0.5);
        } else if (sscanf(line, "step %lf", &coolant) == 1) {
            advance(coolant);
        } else {
            fprintf(stderr, "reactor: what is %s", line);
            return 2;
        }
        printf("%.9g %.9g\n", concentration, temperature);
        fflush(stdout);
    }
    return 0;
}

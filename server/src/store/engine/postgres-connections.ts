/** How many connections to PostgreSQL a node opens at most. Apart from the engine, which loads the driver. */
export const connectionsPerNode = 20
